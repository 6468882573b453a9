"""The kit on every component of this plugin."""

from __future__ import annotations

from core_rl.testing import AlgorithmConformance, LossConformance


class TestBradleyTerryLoss(LossConformance):
    component = "bradley_terry"


class TestRewardModelAlgorithm(AlgorithmConformance):
    component = "reward_model"
