"""How far the trainer's and the rollout engine's log-probabilities of the same tokens are apart.

With m the mask, mu the rollout engine, pi the trainer at the batch's start, and rho = pi / mu:

    kl                mean(log mu - log pi)                    k1 estimate of KL(mu || pi)
    k3                mean(rho - log rho - 1)                  never negative
    abs_mean          mean |log pi - log mu|
    abs_max           max |log pi - log mu|
    chi2_token        mean(rho^2) - 1
    chi2_seq          mean over sequences of (prod_t rho_t)^2, - 1
    ess               1 / mean((rho / mean(rho))^2)            1 when both agree
    log_ppl_diff      mean over sequences of mean_t(log mu - log pi)
    outside_frac      share of tokens with rho < 1/1000: sampled, and outside what the trainer would sample
    mult_prob_error   mean(exp |log mu - log pi|)              NeMo-RL; 1.00 to 1.02 is healthy, above 1.05 is not
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from core_rl.numerics.ratios import bounded_exp
from core_rl.numerics.segments import segment_count, segment_mean, segment_sum

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch


OUTSIDE = -math.log(1000.0)
"""Below this log-ratio a token is outside the trainer's support."""


def mismatch_metrics(batch: PackedBatch) -> dict[str, float]:
    """`mismatch/...` of a batch with `old_logprobs` and `rollout_logprobs`; empty for an empty mask."""
    mask, cu_seqlens = batch.loss_mask, batch.cu_seqlens
    if not mask.any():
        return {}
    difference = (batch["old_logprobs"].double() - batch["rollout_logprobs"].double()).where(mask, 0.0)
    present = segment_count(mask, cu_seqlens) > 0
    log_rho = difference[mask]
    rho = bounded_exp(log_rho)
    rho_of_sequence = bounded_exp(segment_sum(difference, cu_seqlens, mask)[present])
    scalars: dict[str, torch.Tensor] = {
        "kl": -log_rho.mean(),
        "k3": (rho - log_rho - 1).mean(),
        "abs_mean": log_rho.abs().mean(),
        "abs_max": log_rho.abs().max(),
        "chi2_token": rho.square().mean() - 1,
        "chi2_seq": rho_of_sequence.square().mean() - 1,
        "ess": 1 / (rho / rho.mean()).square().mean(),
        "outside_frac": (log_rho < OUTSIDE).double().mean(),
        "log_ppl_diff": -segment_mean(difference, cu_seqlens, mask)[present].mean(),
        "mult_prob_error": bounded_exp(log_rho.abs()).mean(),
    }
    return {f"mismatch/{name}": float(value) for name, value in scalars.items()}
