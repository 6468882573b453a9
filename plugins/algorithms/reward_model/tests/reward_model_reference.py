"""Bradley-Terry by its definition, pair by pair, in plain Python; and random batches of pairs."""

from __future__ import annotations

import math

import torch

from core_rl.data.batch import PackedBatch


def bradley_terry(chosen, rejected, margin=0.0, centre=0.0):
    """(loss, derivative by the chosen score, derivative by the rejected score)."""
    x = chosen - rejected - margin
    loss = math.log1p(math.exp(-abs(x))) + max(-x, 0.0) + centre * (chosen + rejected) ** 2
    wrong = 1 / (1 + math.exp(x)) if x < 700 else 0.0
    pull = 2 * centre * (chosen + rejected)
    return loss, -wrong + pull, wrong + pull


def batch_of(scores, *, margins=None, seed=0):
    """A batch of pairs with these (chosen, rejected) scores; which side comes first, and lengths, are random."""
    random = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, 7, (2 * len(scores),), generator=random)
    first = torch.rand(len(scores), generator=random) < 0.5
    chosen = torch.stack([first, ~first], 1).flatten()
    cu_seqlens = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    ends = cu_seqlens[1:] - 1
    count = int(cu_seqlens[-1])
    mask = torch.zeros(count, dtype=torch.bool)
    mask[ends] = True
    values = torch.zeros(count, dtype=torch.float64)
    ordered = [score for pair, up in zip(scores, first.tolist(), strict=True) for score in (pair if up else reversed(pair))]
    values[ends] = torch.tensor(ordered, dtype=torch.float64)
    fields = {"group": torch.arange(len(scores)).repeat_interleave(2), "chosen": chosen}
    if margins is not None:
        fields["margin"] = torch.tensor(margins, dtype=torch.float64).repeat_interleave(2)
    return PackedBatch(
        tokens=torch.randint(0, 9, (count,), generator=random),
        cu_seqlens=cu_seqlens.int(),
        positions=(torch.arange(count) - torch.repeat_interleave(cu_seqlens[:-1], lengths)).int(),
        loss_mask=mask,
        token_fields={"new_values": values, "logprobs": torch.zeros(count), "entropy": torch.zeros(count)},
        sequence_fields=fields,
    )
