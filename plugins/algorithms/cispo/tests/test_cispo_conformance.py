"""The kit on every component of this plugin."""

from __future__ import annotations

from core_rl.testing import AlgorithmConformance, LossConformance


class TestCispoLoss(LossConformance):
    component = "cispo"


class TestAipoLoss(LossConformance):
    component = "aipo"


class TestToprLoss(LossConformance):
    component = "topr"


class TestRolloutIsLoss(LossConformance):
    component = "rollout_is"


class TestCispoAlgorithm(AlgorithmConformance):
    component = "cispo"


class TestToprAlgorithm(AlgorithmConformance):
    component = "topr"
