"""The local rollout engine, with weights of its own, passes the suite."""

from __future__ import annotations

from core_rl.testing.rollout_engines import UNTIED, RolloutEngineConformance


class TestLocalRollout(RolloutEngineConformance):
    component = "local"


class TestUntied(RolloutEngineConformance):
    component = "local"
    model = UNTIED
