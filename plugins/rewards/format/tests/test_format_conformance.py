"""The kit on this reward."""

from __future__ import annotations

from typing import ClassVar

from core_rl.testing import RewardConformance, sample


class TestFormat(RewardConformance):
    component = "format"
    samples: ClassVar = (sample("<think>no</think><answer>5</answer>"), sample("5"))
