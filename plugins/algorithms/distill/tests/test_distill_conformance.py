"""The kit on every component of this plugin."""

from __future__ import annotations

from typing import ClassVar

from core_rl.testing import AdvantageConformance, AlgorithmConformance, LossConformance


class TestDistillAdvantage(AdvantageConformance):
    component = "distill"


class TestZeroAdvantage(AdvantageConformance):
    component = "zero"


class TestDistillKlLoss(LossConformance):
    component = "distill_kl"


class TestGjsdLoss(LossConformance):
    component = "gjsd"


class TestGjsdRestLoss(LossConformance):
    component = "gjsd"
    options: ClassVar = {"top_k": 5, "tail": "rest"}


class TestOpdAlgorithm(AlgorithmConformance):
    component = "opd"


class TestGkdAlgorithm(AlgorithmConformance):
    component = "gkd"


class TestKdAlgorithm(AlgorithmConformance):
    component = "kd"
