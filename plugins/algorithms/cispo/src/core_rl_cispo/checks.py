"""Mistakes in a run file that only several keys together make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.errors import Problem
from core_rl_cispo.config import AipoConfig, RolloutIsConfig

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile

_WEIGHTS = ("tis", "icepop", "mis", "seq_mask_tis")


def check(config: RunFile) -> list[Problem]:
    """A loss whose ratio goes to the rollout policy corrects for it already: a second weight would count it twice."""
    algorithm = config.algorithm.options
    if not isinstance(algorithm, AlgorithmConfig) or not _to_rollout(algorithm.loss.options):
        return []
    return [
        Problem(
            "",
            f"algorithm.rejections.{index}",
            f"loss {algorithm.loss.name} has the ratio to the rollout policy in it: the weights of {one.name} would count it twice; "
            "leave it out",
        )
        for index, one in enumerate(algorithm.rejections)
        if one.name.rpartition("/")[2] in _WEIGHTS
    ]


def _to_rollout(options: object) -> bool:
    return isinstance(options, RolloutIsConfig) or (isinstance(options, AipoConfig) and options.behaviour == "rollout")
