"""The kit on every component of this plugin."""

from __future__ import annotations

from core_rl.testing import AlgorithmConformance, LossConformance


class TestDecoupledPpoLoss(LossConformance):
    component = "decoupled_ppo"


class TestA3poAlgorithm(AlgorithmConformance):
    component = "a3po"
