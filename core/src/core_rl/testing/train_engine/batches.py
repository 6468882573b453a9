"""Packed batches for train engines: groups of ragged completions after a shared prompt, with a tool's tokens between the policy's.

N tokens, S sequences.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch

from core_rl.data.batch import PackedBatch
from core_rl.testing.train_engine.models import VOCABULARY

SIZES = (3, 2, 4, 1)
"""Sequences of each group."""


@functools.cache
def grouped_batch(seed: int) -> PackedBatch:
    """Four groups, ten sequences of 5 to 18 tokens, each with tokens in the mask. With advantages, old log-probabilities and returns.

    Advantages have a mean well above 0, so that the loss is no difference of large numbers and a relative error has a meaning.
    """
    random = torch.Generator().manual_seed(seed)
    rows: list[torch.Tensor] = []
    masks: list[torch.Tensor] = []
    for size in SIZES:
        prompt = _tokens(_length(3, 7, random), random)
        for _ in range(size):
            completion = _tokens(_length(2, 11, random), random)
            written = torch.rand(completion.numel(), generator=random) > 0.2
            written[0] = True
            rows.append(torch.cat([prompt, completion]))
            masks.append(torch.cat([torch.zeros_like(prompt, dtype=torch.bool), written]))
    group = torch.repeat_interleave(torch.arange(len(SIZES)), torch.tensor(SIZES))
    return _pack(rows, masks, group, random)


def with_masked_sequences(batch: PackedBatch, sequences: Sequence[int]) -> PackedBatch:
    """Nothing of these sequences is in the mask."""
    mask = batch.loss_mask.clone()
    mask[batch.token_indices(sequences)] = False
    return batch.with_loss_mask(mask)


def with_ids_to_gather(batch: PackedBatch, count: int = 3) -> PackedBatch:
    """`gather_ids` [N, count]: other tokens in each token's place."""
    random = torch.Generator().manual_seed(count)
    ids = torch.randint(0, VOCABULARY, (batch.num_tokens, count), generator=random)
    return batch.with_tokens(gather_ids=ids)


def _pack(rows: list[torch.Tensor], masks: list[torch.Tensor], group: torch.Tensor, random: torch.Generator) -> PackedBatch:
    lengths = torch.tensor([row.numel() for row in rows])
    cu_seqlens = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    mask, count = torch.cat(masks), int(lengths.sum())
    positions = torch.arange(count) - torch.repeat_interleave(cu_seqlens[:-1], lengths)
    return PackedBatch(
        tokens=torch.cat(rows),
        cu_seqlens=cu_seqlens.int(),
        positions=positions.int(),
        loss_mask=mask,
        token_fields={
            "advantages": (1.0 + 0.7 * torch.randn(count, generator=random)).where(mask, 0.0),
            "old_logprobs": (-4.0 + 0.5 * torch.randn(count, generator=random)).where(mask, 0.0),
            "returns": torch.randn(count, generator=random).where(mask, 0.0),
        },
        sequence_fields={"group": group},
    )


def _length(low: int, high: int, random: torch.Generator) -> int:
    return int(torch.randint(low, high + 1, (1,), generator=random))


def _tokens(count: int, random: torch.Generator) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (count,), generator=random)
