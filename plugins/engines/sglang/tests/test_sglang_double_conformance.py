"""The conformance suite of rollout engines, against servers of SGLang's documented routes that sample by the engine `local`."""

from __future__ import annotations

from core_rl.testing.rollout_engines import RolloutEngineConformance

from .double import ENVIRONMENT


class TestDouble(RolloutEngineConformance):
    component = "sglang"
    options = {"env": ENVIRONMENT, "servers": 2}  # noqa: RUF012 - as the base class has it
