"""Keep what trainer and rollout engine agree on: a statistic of d = log pi_old - log mu lies in a band (AReaL's rejection sampling).

With d_t over the tokens in the mask, q = mu, p = pi_old,

    ratio       e^d                       k2   d^2 / 2
    k1          d                         k3   e^-d - 1 + d, which is mu/pi_old - 1 - log(mu/pi_old)
    k3_rho      e^d - 1 - d, the estimate of KL(mu || pi_old) from samples of mu; verl's k3
    binary_kl   the larger of KL(Bern(p) || Bern(q)) and KL(Bern(q) || Bern(p)) of the sampled token

token: each token's own. sequence: the sum, mean or largest over the sequence; ratios are aggregated in log space, so that their sum is the
product, their mean the geometric mean. Kept is lower <= value <= upper, both included. A sequence with no token in the mask is not judged.

Bounds are on pi_train / pi_rollout. Where others differ:
1. verl's k1 is -d compared with the logarithms of its "ratio" bounds: its bounds act on mu/pi_old. `token_k1: 0.5_5.0` there is metric ratio,
   lower 0.2, upper 2 here.
2. verl's k3 is `k3_rho`; `k3` estimates the other direction. They agree where d is small.
3. verl's seq_sum, seq_mean and seq_max are level sequence with aggregate sum, mean and max.
4. Cosmos-RL zeroes (`action: zero`), RLinf drops (`mask`), TIS truncates (`clamp`, or the rejection `tis`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core_rl.numerics.ratios import LOG_RATIO_BOUND, bounded_exp
from core_rl.numerics.segments import broadcast, segment_max, segment_mean, segment_sum
from core_rl.roles.scoring import Verdict
from core_rl_rejections._report import dropped, weight_metrics

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_rejections.config import RatioBandConfig

_REDUCE = {"sum": segment_sum, "mean": segment_mean, "max": segment_max}


class RatioBand:
    """A rejection."""

    def __init__(self, options: RatioBandConfig) -> None:
        self.options = options

    def __call__(self, batch: PackedBatch) -> Verdict:
        options, mask = self.options, batch.loss_mask
        value = self._statistic(batch)
        inside = torch.ones_like(mask)
        if options.lower is not None:
            inside &= value >= options.lower
        if options.upper is not None:
            inside &= value <= options.upper
        if options.action == "mask":
            return Verdict(keep=inside | ~mask, metrics=dropped("ratio_band", inside, mask))
        weights = inside.float() if options.action == "zero" else value.clamp(options.lower, options.upper).float()
        return Verdict(keep=torch.ones_like(mask), weights=weights, metrics=weight_metrics("ratio_band", weights, mask))

    def _statistic(self, batch: PackedBatch) -> torch.Tensor:
        """[N]: the value that each token is judged by."""
        options, mask = self.options, batch.loss_mask
        log_p, log_q = batch["old_logprobs"], batch["rollout_logprobs"]
        value = _of_tokens(log_p, log_q, options.metric).where(mask, 0.0)
        if options.level == "sequence":
            per_sequence = _REDUCE[options.aggregate](value, batch.cu_seqlens, mask)
            value = broadcast(per_sequence, batch.cu_seqlens, batch.num_tokens)
        return bounded_exp(value) if options.metric == "ratio" else value


def _of_tokens(log_p: torch.Tensor, log_q: torch.Tensor, metric: str) -> torch.Tensor:
    """[N]; ratios as logarithms."""
    d = log_p - log_q
    if metric == "k2":
        return d.square() / 2
    if metric in ("k3", "k3_rho"):
        signed = -d if metric == "k3" else d
        return signed.clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND).expm1() - signed
    if metric == "binary_kl":
        return torch.maximum(_binary_kl(log_p, log_q), _binary_kl(log_q, log_p))
    return d


def _binary_kl(log_p: torch.Tensor, log_q: torch.Tensor) -> torch.Tensor:
    """KL(Bern(p) || Bern(q)): 0 for equal ones; a probability of 1 counts as the largest number below it, so that nothing is infinite."""
    log_p, log_q = log_p.double().clamp(max=-1e-12), log_q.double().clamp(max=-1e-12)
    rest_p, rest_q = torch.log(-torch.expm1(log_p)), torch.log(-torch.expm1(log_q))
    return log_p.exp() * (log_p - log_q) + rest_p.exp() * (rest_p - rest_q)
