"""The conformance suite of rollout engines: what every one of them must do, whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

import pytest

from core_rl.testing.conformance import FIXED, ComponentConformance
from core_rl.testing.rollout_engine.bench import MODEL, UNTIED, RolloutBench
from core_rl.testing.rollout_engine.suite import CHECKS, TOLERANCES, Check

if TYPE_CHECKING:
    from core_rl.hf.spec import ModelSpec

__all__ = ["CHECKS", "MODEL", "UNTIED", "Check", "RolloutBench", "RolloutEngineConformance"]


class RolloutEngineConformance(ComponentConformance, kind="rollout_engine"):
    """Subclass it in a test module, name the component, and pytest runs every check on it:

        from core_rl.testing import RolloutEngineConformance

        class TestMine(RolloutEngineConformance):
            component = "mine"              # the component's name, or `module:Object`
            options = {"servers": 2}     # fields of its options class

    The engine is started once, with a tiny random model, and all checks are run on it. Checks cannot be overridden. One that the engine
    cannot meet is an expected failure with its reason, which fails once it is met.
    """

    dtype: ClassVar[Literal["float32", "bfloat16"]] = "float32"
    model: ClassVar[ModelSpec] = MODEL
    """`UNTIED` has an output layer of its own."""
    _fixed = FIXED | {"bench", "make_bench"}

    @classmethod
    def _is_check(cls, name: str) -> bool:
        return name in CHECKS or super()._is_check(name)

    @classmethod
    def make_bench(cls) -> RolloutBench:
        """Not open yet."""
        return RolloutBench(
            engine_name=cls.component,
            options=cls.options,
            dtype=cls.dtype,
            logprob_tolerance=TOLERANCES[cls.dtype],
            model=cls.model,
        )

    @pytest.fixture(scope="class")
    @classmethod
    def bench(cls) -> Iterator[RolloutBench]:
        bench = cls.make_bench()
        try:
            yield bench.open()
        finally:
            bench.close()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        super().pytest_generate_tests(metafunc)
        if "sampling" in metafunc.fixturenames:
            metafunc.parametrize("sampling", [self._param(name) for name in CHECKS])

    def test_conforms(self, bench: RolloutBench, sampling: str) -> None:
        """The engine does what the check of this name says."""
        one = CHECKS[sampling]
        if one.needs is not None and one.needs not in bench.component.provides:
            pytest.skip(f"it does not provide {one.needs}")
        bench.run(one.run(bench))
