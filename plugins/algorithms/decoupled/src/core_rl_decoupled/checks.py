"""Mistakes in a run file that only several keys together make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.errors import Problem
from core_rl_decoupled.config import DecoupledPpoConfig

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile

_WEIGHTS = ("tis", "icepop", "mis", "seq_mask_tis")


def check(config: RunFile) -> list[Problem]:
    """A proximal policy that is the rollout's, or a second weight beside the loss's own."""
    algorithm = config.algorithm.options
    if not isinstance(algorithm, AlgorithmConfig) or not isinstance(algorithm.loss.options, DecoupledPpoConfig):
        return []
    problems = [
        Problem(
            "",
            f"algorithm.rejections.{index}",
            f"loss decoupled_ppo weighs by pi_prox/mu already: the weights of {one.name} would count it twice, leave it out",
        )
        for index, one in enumerate(algorithm.rejections)
        if one.name.rpartition("/")[2] in _WEIGHTS or getattr(one.options, "action", None) == "clamp"
    ]
    if algorithm.proximal == "rollout":
        message = "rollout makes the proximal policy the one that sampled, so that every weight is 1: take loss ppo_clip, or recompute"
        problems.append(Problem("", "algorithm.proximal", message))
    return problems
