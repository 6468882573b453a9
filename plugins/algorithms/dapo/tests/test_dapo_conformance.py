"""The kit on every component of this plugin."""

from __future__ import annotations

from core_rl.testing import AlgorithmConformance, RewardConformance


class TestOverlongReward(RewardConformance):
    component = "overlong"


class TestDapoAlgorithm(AlgorithmConformance):
    component = "dapo"
