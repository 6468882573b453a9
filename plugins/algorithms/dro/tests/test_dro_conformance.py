"""The kit on every component of this plugin."""

from __future__ import annotations

from typing import ClassVar

from core_rl.testing import AlgorithmConformance, LossConformance


class TestDroLoss(LossConformance):
    component = "dro"
    options: ClassVar = {"beta": 0.1}


class TestDroAlgorithm(AlgorithmConformance):
    component = "dro"
