"""The kit on this reward."""

from __future__ import annotations

from typing import ClassVar

from core_rl.testing import RewardConformance, sample


class TestChoice(RewardConformance):
    component = "choice"
    samples: ClassVar = (sample("The answer is B.", answer="B"), sample("(C)", answer="A"))
