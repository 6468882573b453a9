"""Mistakes in a run file that only several keys together make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.errors import Problem
from core_rl_grpo.config import GroupNormConfig

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile


def check(config: RunFile) -> list[Problem]:
    """A group of one compared with itself: every advantage would be 0."""
    algorithm = config.algorithm.options
    if not isinstance(algorithm, AlgorithmConfig):
        return []
    options = algorithm.advantage.options
    if algorithm.group_size > 1 or not isinstance(options, GroupNormConfig) or options.mean_level != "group":
        return []
    message = (
        "1 leaves group_norm nothing to compare a sample with, so that every advantage is 0: take at least 2, "
        "or advantage.mean_level: batch"
    )
    return [Problem("", "algorithm.group_size", message)]
