"""Mistakes in a run file that only several keys together make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.errors import Problem
from core_rl_gmpo.config import GmpoConfig

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile


def check(config: RunFile) -> list[Problem]:
    """The loss of a sequence stands at each of its tokens: an average over the batch's tokens would weigh sequences by length."""
    algorithm = config.algorithm.options
    if not isinstance(algorithm, AlgorithmConfig) or not isinstance(algorithm.loss.options, GmpoConfig):
        return []
    chosen = algorithm.aggregation.component
    if chosen is None or chosen.name == "seq-mean-token-mean":  # an aggregation of the user's own is the user's to answer for
        return []
    message = f"loss gmpo is a mean over sequences, and {chosen.name} is another: take seq-mean-token-mean"
    return [Problem("", "algorithm.aggregation", message)]
