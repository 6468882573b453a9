"""The kit on every component of this plugin."""

from __future__ import annotations

from core_rl.testing import AdvantageConformance, AlgorithmConformance, LossConformance, ResamplerConformance


class TestReinforceReturnsAdvantage(AdvantageConformance):
    component = "reinforce_returns"


class TestRlooAdvantage(AdvantageConformance):
    component = "rloo"


class TestRemaxAdvantage(AdvantageConformance):
    component = "remax"


class TestOpoAdvantage(AdvantageConformance):
    component = "opo"


class TestGpgAdvantage(AdvantageConformance):
    component = "gpg"


class TestPassAtKAdvantage(AdvantageConformance):
    component = "pass_at_k"


class TestMaxrlAdvantage(AdvantageConformance):
    component = "maxrl"


class TestGdpoAdvantage(AdvantageConformance):
    component = "gdpo"


class TestReinforceLoss(LossConformance):
    component = "reinforce"


class TestPfPpoResampler(ResamplerConformance):
    component = "pf_ppo"


class TestRemaxAlgorithm(AlgorithmConformance):
    component = "remax"


class TestPfPpoAlgorithm(AlgorithmConformance):
    component = "pf_ppo"
