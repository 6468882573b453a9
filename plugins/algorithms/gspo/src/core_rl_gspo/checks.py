"""Mistakes in a run file that only several keys together make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.errors import Problem
from core_rl_gspo.config import GspoConfig

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile

_OF_SEQUENCES = ("seq-mean-token-mean", "seq-mean-token-sum")


def check(config: RunFile) -> list[Problem]:
    """The loss of a sequence stands at each of its tokens: an average over the batch's tokens would weigh sequences by length."""
    algorithm = config.algorithm.options
    if not isinstance(algorithm, AlgorithmConfig) or not isinstance(algorithm.loss.options, GspoConfig):
        return []
    chosen = algorithm.aggregation.component
    if chosen is None or chosen.name in _OF_SEQUENCES:  # an aggregation of the user's own is the user's to answer for
        return []
    message = (
        f"loss gspo is a mean over sequences, and {chosen.name} is another: take seq-mean-token-mean (GSPO) "
        "or seq-mean-token-sum (LUSPO)"
    )
    return [Problem("", "algorithm.aggregation", message)]
