"""The kit on every component of this plugin."""

from __future__ import annotations

from core_rl.testing import AlgorithmConformance, RejectionConformance


class TestM2poRejection(RejectionConformance):
    component = "m2po"


class TestM2poAlgorithm(AlgorithmConformance):
    component = "m2po"
