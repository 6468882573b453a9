"""The kit on every component of this plugin."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from core_rl.testing import DataConformance

ROWS = str(Path(__file__).parent / "rows.jsonl")


class TestPairs(DataConformance):
    component = "pairs"
    options: ClassVar = {"path": ROWS, "eval_fraction": 0.34}
    missing: ClassVar = {"path": "nowhere.jsonl"}


class TestLabelled(DataConformance):
    component = "labelled"
    options: ClassVar = {"path": ROWS, "eval_fraction": 0.34}
    missing: ClassVar = {"path": "nowhere.jsonl"}
