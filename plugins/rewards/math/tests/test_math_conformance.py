"""The kit on this reward."""

from __future__ import annotations

from typing import ClassVar

from core_rl.testing import RewardConformance, sample


class TestMath(RewardConformance):
    component = "math"
    samples: ClassVar = (
        sample(r"so \boxed{\frac{1}{2}}", answer="0.5"),
        sample("it is 72 apples", answer="72"),
        sample("no", answer="x+1"),
    )
