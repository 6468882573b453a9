"""The kit on every component of this plugin."""

from __future__ import annotations

from typing import ClassVar

from core_rl.testing import DataConformance


class TestData(DataConformance):
    component = "reasoning_gym"
    options: ClassVar = {"task": "chain_sum", "size": 6}
    missing: ClassVar = {"task": "no_such_task"}
