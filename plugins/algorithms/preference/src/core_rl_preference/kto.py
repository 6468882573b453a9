"""KTO: good and bad completions apart, with the loss of prospect theory (2402.01306, eq. 8).

S sequences. With a = log pi/pi_ref of a completion, summed over its tokens,

    good:  l = desirable_weight   (1 - sigmoid(beta (a - z)))
    bad:   l = undesirable_weight (1 - sigmoid(beta (z - a)))
    z = max(0, mean over the batch of log pi/pi_ref of mismatched rows), without gradient

A mismatched row is a prompt with the completion of the next row of the batch. z belongs to the whole batch of an optimizer step and is
computed before it is split. The loss of a row stands at each of its tokens: seq-mean-token-mean is the mean over rows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import torch

from core_rl.errors import DataError
from core_rl.roles.train import LossOutput
from core_rl_preference._log_ratios import reference_logprobs, sequence_logprobs, to_tokens

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.roles.scoring import Forward
    from core_rl_preference.config import KtoConfig


class Kto:
    """A loss."""

    def __init__(self, options: KtoConfig) -> None:
        self.options = options

    def prepare(self, batch: PackedBatch, forward: Forward) -> PackedBatch:
        if self.options.baseline == "none":
            return batch
        if batch.num_sequences < 2:
            message = "algorithm kto: a step has one row, and the divergence needs mismatched ones: raise run.prompts_per_step"
            raise DataError(message)
        other = mismatched(batch)
        ratios = sequence_logprobs(forward(other, "current") - forward(other, "reference"), other)
        z = ratios.double().mean().clamp(min=0.0).float()
        return batch.with_sequences(kto_z=z.expand(batch.num_sequences).clone())

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        options, good = self.options, batch["desirable"]
        ratio = sequence_logprobs(logprobs, batch) - reference_logprobs(batch)
        z = batch["kto_z"] if options.baseline == "kl" else torch.zeros_like(ratio)
        signed = torch.where(good, ratio - z, z - ratio)
        weight = torch.where(good, options.desirable_weight, options.undesirable_weight).to(ratio.dtype)
        loss = weight * torch.sigmoid(-options.beta * signed)
        return LossOutput(values=to_tokens(loss, batch), metrics=self._metrics(ratio.detach(), z, good))

    def _metrics(
        self, ratio: torch.Tensor, z: torch.Tensor, good: torch.Tensor
    ) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        rewards = self.options.beta * ratio
        right = torch.where(good, ratio > z, ratio < z).to(rewards.dtype)
        count = torch.tensor(good.numel(), device=good.device)
        return {
            "rewards/chosen": (rewards[good].sum(), good.sum()),
            "rewards/rejected": (rewards[~good].sum(), (~good).sum()),
            "rewards/accuracy": (right.sum(), count),
            "kto/z": (z.sum(), count),
        }


def mismatched(batch: PackedBatch) -> PackedBatch:
    """Every prompt with the completion of the next sequence: what is in the mask there, and all that follows its first token.

    A long prompt before a long completion is cut where the batch's longest sequence ends: the model need not reach beyond.
    """
    bounds, mask, longest = batch.cu_seqlens.tolist(), batch.loss_mask, int(batch.lengths.max())
    pieces: list[torch.Tensor] = []
    masks: list[torch.Tensor] = []
    starts = [_first(mask[start:end]) for start, end in pairwise(bounds)]
    for index, first in enumerate(starts):
        other = (index + 1) % len(starts)
        start = bounds[other] + starts[other]
        end = min(bounds[other + 1], start + longest - first)
        pieces += [batch.tokens[bounds[index] : bounds[index] + first], batch.tokens[start:end]]
        masks += [torch.zeros(first, dtype=torch.bool), mask[start:end]]
    lengths = torch.tensor([len(left) + len(right) for left, right in zip(pieces[::2], pieces[1::2], strict=True)])
    cu_seqlens = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    offsets = torch.repeat_interleave(cu_seqlens[:-1], lengths)
    return type(batch)(
        tokens=torch.cat(pieces),
        cu_seqlens=cu_seqlens.int(),
        positions=(torch.arange(offsets.numel()) - offsets).int(),
        loss_mask=torch.cat(masks),
        sequence_fields={"group": torch.arange(len(starts))},
    )


def _first(mask: torch.Tensor) -> int:
    """Where the completion begins; at the end where there is none."""
    found = mask.nonzero()
    return int(found[0]) if found.numel() else mask.numel()
