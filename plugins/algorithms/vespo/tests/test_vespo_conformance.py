"""The kit on every component of this plugin."""

from __future__ import annotations

from core_rl.testing import AlgorithmConformance, LossConformance


class TestVespoLoss(LossConformance):
    component = "vespo"


class TestVespoAlgorithm(AlgorithmConformance):
    component = "vespo"
