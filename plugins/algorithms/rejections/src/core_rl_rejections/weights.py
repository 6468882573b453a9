"""Importance weights of the policy loss for samples of another policy: rho = pi_old / mu, without gradient.

    tis            min(rho, upper), at least lower                   truncated (Yao et al. 2025)
    mis            rho where lower <= rho <= upper, else 0           masked, of the whole sequence (TRL's default)
    icepop         the same, token by token                          0.5 to 5
    seq_mask_tis   rho_t, for sequences whose geometric ratio lies in a narrow band; the others leave the denominators too

Levels: token rho_t; sequence the product over the sequence; geometric its L-th root, at every token. A weight of 0 keeps the denominators.

How others state theirs: verl's rollout_is token or sequence with threshold 2 is tis; SkyRL's tis has 2 (token) or 5 (sequence), slime's a band
[0, 2], NeMo-RL and OpenRLHF a band; ROLL caps at 1.2; TRL's vllm_importance_sampling_mode sequence_mask is mis with 3, token_truncate is tis.
OpenRLHF's and NeMo-RL's seq-mask-tis has 0.999 to 1.002.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core_rl.numerics.ratios import ratios
from core_rl.numerics.whitening import masked_mean
from core_rl.roles.scoring import Verdict
from core_rl_rejections._report import dropped, weight_metrics

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_rejections.config import MisConfig, SeqMaskTisConfig, TisConfig


class Tis:
    """A rejection that rejects nothing: it weighs."""

    def __init__(self, options: TisConfig) -> None:
        self.options = options

    def __call__(self, batch: PackedBatch) -> Verdict:
        options, mask = self.options, batch.loss_mask
        weights = ratios(batch["old_logprobs"], batch["rollout_logprobs"], batch, options.level)
        weights = weights.clamp(options.lower, options.upper)
        if options.batch_normalise and mask.any():
            weights = weights / masked_mean(weights, mask)
        return Verdict(keep=torch.ones_like(mask), weights=weights, metrics=weight_metrics("tis", weights, mask))


class Mis:
    """The same: 0 outside of the band."""

    name = "mis"

    def __init__(self, options: MisConfig) -> None:
        self.options = options

    def __call__(self, batch: PackedBatch) -> Verdict:
        options, mask = self.options, batch.loss_mask
        rho = ratios(batch["old_logprobs"], batch["rollout_logprobs"], batch, options.level)
        outside = rho > options.upper
        if options.lower is not None:
            outside |= rho < options.lower
        weights = rho.masked_fill(outside, 0.0)
        return Verdict(keep=torch.ones_like(mask), weights=weights, metrics=weight_metrics(self.name, weights, mask))


class Icepop(Mis):
    """The same, with the defaults of IcePop."""

    name = "icepop"


class SeqMaskTis:
    """A rejection."""

    def __init__(self, options: SeqMaskTisConfig) -> None:
        self.options = options

    def __call__(self, batch: PackedBatch) -> Verdict:
        options, mask = self.options, batch.loss_mask
        geometric = ratios(batch["old_logprobs"], batch["rollout_logprobs"], batch, "geometric")
        keep = (geometric >= options.lower) & (geometric <= options.upper)
        weights = ratios(batch["old_logprobs"], batch["rollout_logprobs"], batch)
        metrics = weight_metrics("seq_mask_tis", weights, mask & keep) | dropped("seq_mask_tis", keep, mask)
        return Verdict(keep=keep | ~mask, weights=weights, metrics=metrics)
