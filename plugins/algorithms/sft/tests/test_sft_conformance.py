"""The kit on every component of this plugin."""

from __future__ import annotations

from core_rl.testing import AlgorithmConformance, LossConformance


class TestNllLoss(LossConformance):
    component = "nll"


class TestDftLoss(LossConformance):
    component = "dft"


class TestSftAlgorithm(AlgorithmConformance):
    component = "sft"
