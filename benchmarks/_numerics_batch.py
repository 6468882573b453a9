"""The batch that both sides of numerics.py compute on, from a seed: numpy alone, so that the peer's environment reads it too."""

from __future__ import annotations

from typing import Any

import numpy as np

GROUP = 8
"""Samples of a prompt."""


def arrays(sequences: int, mean_length: int, seed: int = 0) -> dict[str, Any]:
    """Flat arrays over all tokens, `lengths` [S] between 1 and twice the mean, so that padded rows are half full."""
    random = np.random.default_rng(seed)
    width = 2 * mean_length
    lengths = random.integers(1, width + 1, sequences)
    lengths[0] = width
    count = int(lengths.sum())
    model = -3 * random.random(count, dtype=np.float32) - 0.01

    def near() -> Any:
        return model + 0.1 * random.standard_normal(count, dtype=np.float32)

    return {
        "lengths": lengths,
        "width": width,
        "group": np.arange(sequences) // GROUP,
        "rewards": random.random(sequences, dtype=np.float32),
        "greedy_rewards": random.random(sequences, dtype=np.float32),
        "logprobs": model,
        "old_logprobs": near(),
        "rollout_logprobs": near(),
        "ref_logprobs": near(),
        "advantages": random.standard_normal(count, dtype=np.float32),
        "values": random.standard_normal(count, dtype=np.float32),
        "new_values": random.standard_normal(count, dtype=np.float32),
        "returns": random.standard_normal(count, dtype=np.float32),
    }
