"""The kit on every component of this plugin."""

from __future__ import annotations

from core_rl.testing import AlgorithmConformance, LossConformance


class TestClipCovLoss(LossConformance):
    component = "clip_cov"


class TestKlCovLoss(LossConformance):
    component = "kl_cov"


class TestClipCovAlgorithm(AlgorithmConformance):
    component = "clip_cov"
