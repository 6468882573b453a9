"""The KL estimators as components: see `core_rl.numerics.kl`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from core_rl.numerics.kl import kl_estimate

if TYPE_CHECKING:
    import torch

    from core_rl.builtin.config import KlEstimatorConfig
    from core_rl.numerics.names import KlEstimator


class Estimator:
    """A `core_rl.roles.scoring.KlEstimator`: one of the named ones, with its bounds."""

    def __init__(self, name: KlEstimator, options: KlEstimatorConfig | None = None) -> None:
        self.name = name
        self.value_bound = options.value_bound if options else None

    def __call__(self, logprobs: torch.Tensor, ref_logprobs: torch.Tensor) -> torch.Tensor:
        return kl_estimate(logprobs, ref_logprobs, self.name, value_bound=self.value_bound)


def _named(name: KlEstimator) -> Callable[[KlEstimatorConfig], Estimator]:
    return partial(Estimator, name)


k1 = _named("k1")
abs_ = _named("abs")
k2 = _named("k2")
k3 = _named("k3")
k1_plus = _named("k1+")
k3_plus = _named("k3+")
