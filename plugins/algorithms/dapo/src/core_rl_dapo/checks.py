"""Mistakes in a run file that only several keys together make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.errors import Problem
from core_rl_dapo.config import OverlongConfig

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile


def check(config: RunFile) -> list[Problem]:
    """A penalty that begins before the first token, since the cache is longer than what sampling allows."""
    algorithm = config.algorithm.options
    own = algorithm.rewards if isinstance(algorithm, AlgorithmConfig) else ()
    named = [(f"rewards[{index}]", one) for index, one in enumerate(config.rewards)]
    named += [(f"algorithm.rewards[{index}]", one) for index, one in enumerate(own)]
    longest = config.sampling.max_new_tokens
    return [
        Problem(
            "",
            path,
            f"overlong's cache of {one.options.cache} tokens is more than sampling.max_new_tokens, {longest}: every completion "
            "would lose reward; take a shorter cache, or give max_length",
        )
        for path, one in named
        if isinstance(one.options, OverlongConfig) and one.options.max_length is None and (one.options.cache or 0) > longest
    ]
