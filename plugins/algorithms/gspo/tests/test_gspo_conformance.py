"""The kit on every component of this plugin."""

from __future__ import annotations

from core_rl.testing import AlgorithmConformance, LossConformance


class TestGspoLoss(LossConformance):
    component = "gspo"


class TestGspoAlgorithm(AlgorithmConformance):
    component = "gspo"
