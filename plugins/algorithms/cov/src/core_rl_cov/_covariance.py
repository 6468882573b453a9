"""The covariance that drives entropy down (2505.22617, eq. 7), and how tokens are chosen by it.

N tokens, M of them in the mask. Everything is a function of the whole batch of an optimizer step, before it is split.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from core_rl.numerics.segments import segment_sum
from core_rl.numerics.whitening import masked_mean

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch


def covariance(batch: PackedBatch) -> torch.Tensor:
    """[N] float64: (A_t - mean A)(log pi_old(t) - mean log pi_old); -inf outside the mask."""
    mask = batch.loss_mask
    advantages, logprobs = batch["advantages"].double(), batch["old_logprobs"].double()
    product = (advantages - masked_mean(advantages, mask)) * (logprobs - masked_mean(logprobs, mask))
    return product.where(mask, -torch.inf)


def share_of(batch: PackedBatch, ratio: float) -> int:
    """max(1, floor(ratio · M)); 0 for an empty mask."""
    count = int(batch.loss_mask.sum())
    return min(count, max(1, math.floor(ratio * count)))


def drawn(batch: PackedBatch, candidates: torch.Tensor, count: int) -> torch.Tensor:
    """[N] bool: `count` of the candidates, as if at random, and the same ones in every order of packing."""
    where = candidates.nonzero()[:, 0]
    chosen = where[_key(batch, where).topk(min(count, where.numel())).indices]
    return torch.zeros_like(candidates).index_fill(0, chosen, value=True)


def largest(batch: PackedBatch, values: torch.Tensor, count: int) -> torch.Tensor:
    """[N] bool: the `count` largest. Of those that are equal in float32, as the two of a batch of two tokens always are, `drawn` ones."""
    if count == 0:
        return torch.zeros_like(values, dtype=torch.bool)
    rounded = values.float()
    last = rounded.topk(count).values[-1]
    above = rounded > last
    return above | drawn(batch, rounded == last, count - int(above.sum()))


def _key(batch: PackedBatch, where: torch.Tensor) -> torch.Tensor:
    """A hash of what each token is and where it stands. Samples of one prompt often begin alike, so that it has their whole sequence in
    it too: else such tokens would all be drawn or none.
    """
    logprobs = batch["old_logprobs"].double()
    whole = segment_sum(logprobs * (1 + batch.positions), batch.cu_seqlens, batch.loss_mask)
    whole, logprobs = whole[batch.sequence_ids[where]], logprobs[where]
    own = logprobs * 12.9898 + batch["advantages"][where].double() * 78.233 + batch.positions[where] * 37.719
    return (own + batch.tokens[where] * 0.7548 + 94.673 * whole).sin().mul(43758.5453).frac()
