"""The suites of engines without pytest, for `core-rl plugins check --engines`: one process, a tiny model, default options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from core_rl.testing.kit.limit import OutOfTimeError, ends_within
from core_rl.testing.kit.runner import Outcome, outcome

if TYPE_CHECKING:
    from core_rl.testing.kit.subject import Subject


def engine_outcomes(subject: Subject, *, limit_s: float | None = None) -> Iterator[Outcome]:
    """Of a train or a rollout engine, by its own suite, each within `limit_s`."""
    yield from (_train if subject.kind == "train_engine" else _rollout)(subject, limit_s)


def _train(subject: Subject, limit_s: float | None) -> Iterator[Outcome]:
    from core_rl.testing.train_engine.bench import Bench
    from core_rl.testing.train_engine.subject import Subject as Engine
    from core_rl.testing.train_engine.suite import CHECKS, Suite, cases

    engine, bench = Engine(engine=subject.name, options=subject.options), Bench()
    suite = Suite(engine, bench)
    try:
        for case in cases(engine):
            about = CHECKS[case.check].about
            try:
                with ends_within(limit_s):
                    found = suite.outcome(case)
            except OutOfTimeError as error:
                yield Outcome(check=str(case), status="failed", reason=str(error), about=about, error=error)
                return
            status = {"passed": "ok", "failed": "failed"}.get(found.status, "not judged")
            yield Outcome(check=str(case), status=status, reason=found.reason, about=about)  # type: ignore[arg-type]
    finally:
        bench.close()


def _rollout(subject: Subject, limit_s: float | None) -> Iterator[Outcome]:
    from core_rl.testing.kit.check import Check
    from core_rl.testing.rollout_engine.bench import RolloutBench
    from core_rl.testing.rollout_engine.suite import CHECKS, TOLERANCES

    bench = RolloutBench(
        engine_name=subject.name, options=subject.options, dtype="float32", logprob_tolerance=TOLERANCES["float32"]
    )

    def start(_: Subject) -> None:
        bench.open()

    opened = outcome(Check(run=start), subject, limit_s=limit_s)
    try:
        if opened.status != "ok":
            yield Outcome(check="start", status="failed", reason=opened.reason, error=opened.error)
            return
        for name, one in CHECKS.items():
            check = Check(run=lambda _, one=one: bench.run(one.run(bench)), provides=one.needs)  # type: ignore[misc]
            found = outcome(check, subject, limit_s=limit_s)
            yield attrs.evolve(found, check=name, about=one.about)
    finally:
        bench.close()
