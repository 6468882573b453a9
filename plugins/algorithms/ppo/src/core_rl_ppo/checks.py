"""Mistakes in a run file that only several keys together make. The core refuses `gae` without a critic by its need of values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.errors import Problem
from core_rl_ppo.config import GaeConfig

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile


def check(config: RunFile) -> list[Problem]:
    """A lambda by length that is 0 at every length that can be sampled."""
    algorithm = config.algorithm.options
    if not isinstance(algorithm, AlgorithmConfig) or not isinstance(algorithm.advantage.options, GaeConfig):
        return []
    alpha, longest = algorithm.advantage.options.length_adaptive_alpha, config.sampling.max_new_tokens
    if alpha is None or alpha * longest > 1:
        return []
    message = (
        f"{alpha:g} makes lambda 0 up to {1 / alpha:.0f} tokens, and sampling.max_new_tokens is {longest}: "
        f"take more than {1 / longest:.2g}, or null and a fixed lam"
    )
    return [Problem("", "algorithm.advantage.length_adaptive_alpha", message)]
