"""Mistakes in a run file that only several keys together make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.errors import Problem
from core_rl_m2po.config import M2poConfig

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile


def check(config: RunFile) -> list[Problem]:
    """An old policy that is the rollout's: every log-ratio would be 0, and nothing would ever be held back."""
    algorithm = config.algorithm.options
    if not isinstance(algorithm, AlgorithmConfig) or algorithm.proximal != "rollout":
        return []
    if not any(isinstance(one.options, M2poConfig) for one in algorithm.rejections):
        return []
    message = "rollout makes the old policy the one that sampled, so that m2po finds every log-ratio to be 0 and bounds nothing: take recompute"
    return [Problem("", "algorithm.proximal", message)]
