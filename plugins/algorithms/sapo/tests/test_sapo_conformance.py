"""The kit on every component of this plugin."""

from __future__ import annotations

from core_rl.testing import AlgorithmConformance, LossConformance


class TestSapoLoss(LossConformance):
    component = "sapo"


class TestSapoAlgorithm(AlgorithmConformance):
    component = "sapo"
