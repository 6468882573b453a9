"""The kit on every component of this plugin."""

from __future__ import annotations

from typing import ClassVar

from core_rl.testing import AlgorithmConformance, LossConformance


class TestDpoLoss(LossConformance):
    component = "dpo"


class TestDpoAotLoss(LossConformance):
    component = "dpo"
    options: ClassVar = {"loss_type": "aot"}


class TestDpoBcoLoss(LossConformance):
    component = "dpo"
    options: ClassVar = {"loss_type": "bco_pair"}


class TestCpoLoss(LossConformance):
    component = "cpo"


class TestSimpoLoss(LossConformance):
    component = "simpo"


class TestOrpoLoss(LossConformance):
    component = "orpo"


class TestKtoLoss(LossConformance):
    component = "kto"


class TestDpoAlgorithm(AlgorithmConformance):
    component = "dpo"


class TestKtoAlgorithm(AlgorithmConformance):
    component = "kto"
