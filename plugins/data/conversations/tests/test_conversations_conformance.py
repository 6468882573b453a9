"""The kit on every component of this plugin."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from core_rl.testing import DataConformance

ROWS = str(Path(__file__).parent / "rows.jsonl")


class TestConversations(DataConformance):
    component = "conversations"
    options: ClassVar = {"path": ROWS, "format": "text", "eval_fraction": 0.34}
    missing: ClassVar = {"path": "nowhere.jsonl"}
