"""The reward of both sides of `grpo_vs_trl.py`: cheap, and never equal for a whole group, so that every group is trained on."""

from __future__ import annotations

from typing import Any


def variety(completion: str, **_: Any) -> float:
    """How many different characters a text has, against its length."""
    return len(set(completion)) / max(1, len(completion))
