"""The names of estimators and aggregations, for configuration classes. Torch-free."""

from __future__ import annotations

from typing import Literal

KlEstimator = Literal["k1", "abs", "k2", "k3", "k1+", "k3+"]
"""See `core_rl.numerics.kl`."""

Aggregation = Literal[
    "token-mean",
    "token-sum",
    "seq-mean-token-mean",
    "seq-mean-token-sum",
    "seq-mean-token-sum-norm",
    "prompt-mean",
]
"""See `core_rl.numerics.aggregation`."""

RatioLevel = Literal["token", "sequence", "geometric"]
"""See `core_rl.numerics.ratios`."""
