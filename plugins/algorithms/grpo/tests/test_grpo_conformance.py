"""The kit on every component of this plugin."""

from __future__ import annotations

from typing import ClassVar

from core_rl.testing import AdvantageConformance, AlgorithmConformance, LossConformance


class TestGroupNormAdvantage(AdvantageConformance):
    component = "group_norm"


class TestGroupNormLeaveOneOutAdvantage(AdvantageConformance):
    component = "group_norm"
    options: ClassVar = {"std_level": "none", "leave_one_out": "mean"}


class TestPpoClipLoss(LossConformance):
    component = "ppo_clip"


class TestPpoClipDualLoss(LossConformance):
    component = "ppo_clip"
    options: ClassVar = {"dual_clip": 3.0, "clip_high": 0.28}


class TestGrpoAlgorithm(AlgorithmConformance):
    component = "grpo"


class TestDrGrpoAlgorithm(AlgorithmConformance):
    component = "dr_grpo"
