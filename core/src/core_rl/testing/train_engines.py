"""The conformance suite of train engines: what every one of them must do, whoever wrote it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pytest

from core_rl.testing.conformance import FIXED, ComponentConformance
from core_rl.testing.train_engine.bench import Bench
from core_rl.testing.train_engine.differences import HALF, Measured, Tolerances
from core_rl.testing.train_engine.models import MODELS, tiny
from core_rl.testing.train_engine.subject import Subject
from core_rl.testing.train_engine.suite import CHECKS, Case, Outcome, Suite, cases, expected_failure

if TYPE_CHECKING:
    from core_rl.hf.spec import ModelSpec

__all__ = [
    "CHECKS",
    "HALF",
    "MODELS",
    "Bench",
    "Case",
    "Measured",
    "Outcome",
    "Subject",
    "Suite",
    "Tolerances",
    "TrainEngineConformance",
    "tiny",
]


class TrainEngineConformance(ComponentConformance, kind="train_engine"):
    """Subclass it in a test module, name the component, and pytest runs every check on it:

        from core_rl.testing import TrainEngineConformance

        class TestMine(TrainEngineConformance):
            component = "mine"                       # the component's name, or `module:Object`
            options = {"shards": 2}               # fields of its options class, which has those of `OptimizerConfig` too
            world_sizes = (1, 2)                  # worker processes of this machine; 1 is enough for an engine of one process

    The engine lives in worker processes, as under the launcher `local`; the reference, `local` in float32 on the CPU, in this one. A
    check that needs a capability which the component does not provide is skipped. One that rests on another check is skipped while
    that one fails: mend what fails first. `pytest -k step` runs one check with those it rests on; `CHECKS` are all, each with a
    sentence of what holds.

    Checks cannot be overridden. One that the engine cannot meet is an expected failure with its reason, which fails once it is met.
    """

    options: ClassVar[Mapping[str, Any]] = {}
    """What the suite sets itself (optimizer, budget, clipping) is refused here."""
    world_sizes: ClassVar[Sequence[int]] = (1,)
    """More than 1 asks for the capability `distributed`."""
    models: ClassVar[Mapping[str, ModelSpec]] = MODELS
    """By name; the first takes part in every check, the others where architectures differ. `tiny` makes more."""
    dtype: ClassVar[Literal["float32", "bfloat16", "float16"]] = "float32"
    tolerances: ClassVar[Tolerances] = Tolerances()
    """`HALF` goes with dtype bfloat16."""
    prepare: ClassVar[str | None] = None
    """`module:function`, called without arguments in every worker before anything else. Modules beside the test file are found."""
    expected_failures: ClassVar[Mapping[str, str]] = {}
    """Reasons by the name of a check, or by `check@2` for one number of ranks."""

    _fixed = FIXED | {"suite", "subject", "bench"}

    @classmethod
    def _is_check(cls, name: str) -> bool:
        """Also `check@2`, for one number of ranks."""
        return name.partition("@")[0] in CHECKS or super()._is_check(name)

    @classmethod
    def subject(cls) -> Subject:
        """What this class says, as one record."""
        return Subject(
            engine=cls.component,
            options=cls.options,
            world_sizes=cls.world_sizes,
            models=cls.models,
            dtype=cls.dtype,
            tolerances=cls.tolerances,
            expected_failures=cls.expected_failures,
        )

    @classmethod
    def bench(cls, *, threads: int | None = 1) -> Bench:
        """Where its engines live."""
        return Bench(prepare=cls.prepare, modules=Path(inspect.getfile(cls)).parent, threads=threads)

    @pytest.fixture(scope="class")
    @classmethod
    def suite(cls) -> Iterator[Suite]:
        bench = cls.bench()
        yield Suite(cls.subject(), bench)
        bench.close()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        super().pytest_generate_tests(metafunc)
        if "case" in metafunc.fixturenames:
            subject = self.subject()
            metafunc.parametrize("case", [_case_param(subject, case) for case in cases(subject)])

    def test_conforms(self, suite: Suite, case: Case) -> None:
        """The engine does what the check of this name says."""
        outcome = suite.outcome(case)
        if outcome.status in ("skipped", "blocked"):
            pytest.skip(outcome.reason if outcome.status == "skipped" else f"it rests on {outcome.reason}, which fails")
        if outcome.status == "failed":
            message = f"{CHECKS[case.check].about}\n{outcome.reason}"
            raise AssertionError(message) from outcome.error


def _case_param(subject: Subject, case: Case) -> Any:
    reason = expected_failure(subject, case)
    return pytest.param(case, id=str(case), marks=[pytest.mark.xfail(strict=True, reason=reason)] if reason else [])
