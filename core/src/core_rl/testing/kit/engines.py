"""The suites of engines without pytest, for `core-rl plugins check --engines`: one process, a tiny model, default options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from core_rl.testing.kit.runner import Outcome, outcome

if TYPE_CHECKING:
    from core_rl.testing.kit.subject import Subject


def engine_outcomes(subject: Subject) -> Iterator[Outcome]:
    """Of a train or a rollout engine, by its own suite."""
    yield from _train(subject) if subject.kind == "train_engine" else _rollout(subject)


def _train(subject: Subject) -> Iterator[Outcome]:
    from core_rl.testing.train_engine.bench import Bench
    from core_rl.testing.train_engine.subject import Subject as Engine
    from core_rl.testing.train_engine.suite import CHECKS, Suite, cases

    engine, bench = Engine(engine=subject.name, options=subject.options), Bench()
    suite = Suite(engine, bench)
    try:
        for case in cases(engine):
            found = suite.outcome(case)
            status = {"passed": "ok", "failed": "failed"}.get(found.status, "not judged")
            yield Outcome(check=str(case), status=status, reason=found.reason, about=CHECKS[case.check].about)  # type: ignore[arg-type]
    finally:
        bench.close()


def _rollout(subject: Subject) -> Iterator[Outcome]:
    from core_rl.testing.kit.check import Check
    from core_rl.testing.rollout_engine.bench import RolloutBench
    from core_rl.testing.rollout_engine.suite import CHECKS, TOLERANCES

    bench = RolloutBench(
        engine_name=subject.name, options=subject.options, dtype="float32", logprob_tolerance=TOLERANCES["float32"]
    )

    def start(_: Subject) -> None:
        bench.open()

    opened = outcome(Check(run=start), subject)
    try:
        if opened.status != "ok":
            yield Outcome(check="start", status="failed", reason=opened.reason, error=opened.error)
            return
        for name, one in CHECKS.items():
            found = outcome(Check(run=lambda _, one=one: bench.run(one.run(bench)), provides=one.needs), subject)  # type: ignore[misc]
            yield attrs.evolve(found, check=name, about=one.about)
    finally:
        bench.close()
