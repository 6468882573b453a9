"""Mistakes in a run file that only several keys together make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.config.offline import OfflineConfig
from core_rl.errors import Problem
from core_rl_preference.config import CpoConfig, DpoConfig, KtoConfig, OrpoConfig, SimpoConfig

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile


def check(config: RunFile) -> list[Problem]:
    """Averages that are none over pairs or rows, and batches in which KTO and AOT have nothing to compare."""
    algorithm = config.algorithm.options
    if not isinstance(algorithm, OfflineConfig):
        return []
    options, problems = algorithm.loss.options, []
    wanted = None
    if isinstance(options, DpoConfig | CpoConfig | SimpoConfig | OrpoConfig):
        wanted = "prompt-mean", "pairs"
    elif isinstance(options, KtoConfig):
        wanted = "seq-mean-token-mean", "rows"
    chosen = algorithm.aggregation.component
    if (
        wanted and chosen is not None and chosen.name != wanted[0]
    ):  # an aggregation of the user's own is the user's to answer for
        message = f"loss {algorithm.loss.name} is a mean over {wanted[1]}, and {chosen.name} is another: take {wanted[0]}"
        problems.append(Problem("", "algorithm.aggregation", message))
    compares = (isinstance(options, KtoConfig) and options.baseline == "kl") or (
        isinstance(options, DpoConfig) and options.loss_type in ("aot", "aot_unpaired")
    )
    if isinstance(options, DpoConfig) and options.ld_reference and algorithm.reference == "precomputed":
        message = (
            "ld_reference weighs single tokens of the reference, and only sums are kept: take frozen, or ld_reference: false"
        )
        problems.append(Problem("", "algorithm.reference", message))
    if compares and config.run.prompts_per_step < 2:
        message = f"loss {algorithm.loss.name} compares the rows of a step with each other, and 1 leaves nothing to compare: take more"
        problems.append(Problem("", "run.prompts_per_step", message))
    if isinstance(options, KtoConfig) and options.baseline == "kl" and algorithm.reference == "precomputed":
        message = "kto scores mismatched rows under the reference in every step: take frozen, or loss.baseline: none"
        problems.append(Problem("", "algorithm.reference", message))
    return problems
