"""The kit on every component of this plugin."""

from __future__ import annotations

from core_rl.testing import AdvantageConformance, AlgorithmConformance, LossConformance


class TestGaeAdvantage(AdvantageConformance):
    component = "gae"


class TestPositiveNllLoss(LossConformance):
    component = "positive_nll"


class TestPpoAlgorithm(AlgorithmConformance):
    component = "ppo"


class TestVapoAlgorithm(AlgorithmConformance):
    component = "vapo"
