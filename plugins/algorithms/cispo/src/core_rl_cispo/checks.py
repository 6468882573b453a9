"""Mistakes in a run file that only several keys together make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.errors import Problem
from core_rl_cispo.config import AipoConfig, RolloutIsConfig

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile


def check(config: RunFile) -> list[Problem]:
    """A loss whose ratio goes to the rollout policy corrects for it already: a second weight would count it twice."""
    algorithm = config.algorithm.options
    if not isinstance(algorithm, AlgorithmConfig) or not isinstance(algorithm.loss.options, AipoConfig | RolloutIsConfig):
        return []
    return [
        Problem(
            "",
            f"algorithm.rejections.{index}",
            f"loss {algorithm.loss.name} has the ratio to the rollout policy in it: the weights of {one.name} would count it twice",
        )
        for index, one in enumerate(algorithm.rejections)
        if one.name in ("tis", "icepop", "mis", "seq_mask_tis")
    ]
