"""What core-rl asks of every loss, for two sets of options."""

from __future__ import annotations

from typing import ClassVar

from core_rl.testing import LossConformance


class TestDefaults(LossConformance):
    component = "ce_gppo"


class TestPpo(LossConformance):
    component = "ce_gppo"
    options: ClassVar = {"beta_low": 0.0, "beta_high": 0.0}
