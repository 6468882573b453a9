"""KL-Cov: the plain ratio, with a KL penalty on the tokens of highest covariance (2505.22617, eq. 11).

With x_t = log pi(t) - log pi_old(t), over the M tokens in the mask of an optimizer step

    cov_t = (A_t - mean A)(log pi_old(t) - mean log pi_old)
    I     = the max(1, floor(ratio · M)) tokens with the largest cov_t
    l_t   = -e^(x_t) A_t + coef |x_t| [t in I]

As in `clip_cov` the covariance is that of the old policy. At pi = pi_old the penalty has no gradient: it acts from the second optimizer step of
a batch on. The coefficient is the paper's 1, the share that of its 32B model (2e-3 for 7B); verl's configuration has 0.1 for the
coefficient and its function 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.numerics.ratios import log_ratios, ratios
from core_rl.objective_extras import sums
from core_rl.roles.train import LossOutput
from core_rl_cov._covariance import covariance, largest, share_of

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch
    from core_rl_cov.config import KlCovConfig


class KlCov:
    """A loss."""

    def __init__(self, options: KlCovConfig) -> None:
        self.options = options

    def before_step(self, batch: PackedBatch) -> PackedBatch:
        return batch.with_tokens(kl_cov=largest(batch, covariance(batch), share_of(batch, self.options.ratio)))

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        old, chosen = batch["old_logprobs"], batch["kl_cov"]
        penalty = self.options.coef * log_ratios(logprobs, old, batch).abs().where(chosen, 0.0)
        values = -ratios(logprobs, old, batch) * batch["advantages"] + penalty
        return LossOutput(values=values, metrics=sums({"cov/kl": penalty, "cov/kl_frac": chosen.float()}, batch.loss_mask))
