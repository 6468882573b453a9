"""The kit on every component of this plugin."""

from __future__ import annotations

from core_rl.testing import AlgorithmConformance, LossConformance


class TestDppoTvLoss(LossConformance):
    component = "dppo_tv"


class TestDppoKlLoss(LossConformance):
    component = "dppo_kl"


class TestPrimeLoss(LossConformance):
    component = "prime"


class TestDppoTvAlgorithm(AlgorithmConformance):
    component = "dppo_tv"
