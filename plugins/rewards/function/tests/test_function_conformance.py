"""The kit on this reward, with a function in a file."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from core_rl.testing import RewardConformance


class TestFunction(RewardConformance):
    component = "function"
    options: ClassVar = {"function": f"{Path(__file__).parent / 'scored.py'}:length"}
