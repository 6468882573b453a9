"""Batches of pairs and of labelled rows, as the offline loop makes them, with what a model might say of them."""

from __future__ import annotations

import torch

from core_rl.data.batch import PackedBatch


def sequences(seed, count, *, longest=7):
    """Ragged sequences of one or two prompt tokens and a completion."""
    random = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, longest + 1, (count,), generator=random)
    cu_seqlens = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    total = int(cu_seqlens[-1])
    positions = torch.arange(total) - torch.repeat_interleave(cu_seqlens[:-1], lengths)
    prompt = torch.randint(1, 3, (count,), generator=random)
    mask = positions >= torch.repeat_interleave(prompt, lengths)
    model = -2 * torch.rand(total, generator=random) - 0.05
    reference = (model + 0.5 * torch.randn(total, generator=random)).clamp(max=-0.01)
    return PackedBatch(
        tokens=torch.randint(0, 50, (total,), generator=random),
        cu_seqlens=cu_seqlens.int(),
        positions=positions.int(),
        loss_mask=mask,
        token_fields={
            "logprobs": model.where(mask, 0.0).double(),
            "entropy": torch.zeros(total).double(),
            "ref_logprobs": reference.where(mask, 0.0).double(),
        },
    )


def pairs(seed, count=4):
    """Two sequences a group; which of them is chosen, and in which order they stand, differs."""
    batch = sequences(seed, 2 * count)
    random = torch.Generator().manual_seed(seed + 1)
    first = torch.rand(count, generator=random) < 0.7
    chosen = torch.stack([first, ~first], 1).flatten()
    return batch.with_sequences(group=torch.arange(count).repeat_interleave(2), chosen=chosen)


def labelled(seed, count=6):
    """One sequence a group, good and bad ones."""
    random = torch.Generator().manual_seed(seed + 1)
    batch = sequences(seed, count)
    return batch.with_sequences(group=torch.arange(count), desirable=torch.rand(count, generator=random) < 0.5)


def cut(random, groups, ranks, members):
    """Groups over ranks and micro-batches, whole, in any order."""
    order = list(range(groups))
    random.shuffle(order)
    result = [[] for _ in range(ranks)]
    while order:
        size = random.randint(1, 3)
        part = [sequence for group in order[:size] for sequence in members[group]]
        result[random.randrange(ranks)].append(part)
        order = order[size:]
    return result
