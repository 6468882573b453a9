"""Packed batches for tests of losses, advantages and engines: ragged, with tool turns and a sequence that is wholly masked."""

from __future__ import annotations

import torch

from core_rl.data.batch import PackedBatch


def random_batch(
    seed: int, *, num_groups: int = 3, group_size: int = 3, max_length: int = 9, spread: float = 0.5
) -> PackedBatch:
    """Every well-known field of the online loop, and `logprobs`, `entropy` and `new_values` [N] as a model might give them.

    Groups have 1 to `group_size` sequences of 2 to `max_length` tokens; a fifth of the tokens after the prompt are a tool's. The
    second sequence, when there is one, has no token in the mask. `spread` is the standard deviation between any two log-probabilities.
    """
    random = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, group_size + 1, (num_groups,), generator=random)
    group = torch.repeat_interleave(torch.arange(num_groups), sizes)
    lengths = torch.randint(2, max_length + 1, (group.numel(),), generator=random)
    cu_seqlens = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    count = int(cu_seqlens[-1])
    positions = torch.arange(count) - torch.repeat_interleave(cu_seqlens[:-1], lengths)
    mask = (torch.rand(count, generator=random) > 0.2) & (positions > 0)
    if group.numel() > 1:
        mask[cu_seqlens[1] : cu_seqlens[2]] = False
    model = -3 * torch.rand(count, generator=random) - 0.01

    def near() -> torch.Tensor:
        return (model + spread * torch.randn(count, generator=random)).where(mask, 0.0)

    batch = PackedBatch(
        tokens=torch.randint(0, 50, (count,), generator=random),
        cu_seqlens=cu_seqlens.int(),
        positions=positions.int(),
        loss_mask=mask,
        token_fields={
            "logprobs": model.where(mask, 0.0),
            "entropy": torch.rand(count, generator=random).where(mask, 0.0),
            "old_logprobs": near(),
            "rollout_logprobs": near(),
            "ref_logprobs": near(),
            "advantages": torch.randn(count, generator=random).where(mask, 0.0),
            "weights": 2 * torch.rand(count, generator=random),
            "versions": torch.zeros(count, dtype=torch.int32).where(mask, -1),
        },
        sequence_fields={
            "rewards": torch.rand(group.numel(), generator=random),
            "group": group,
            "truncated": torch.rand(group.numel(), generator=random) < 0.2,
        },
    )
    values = torch.randn(count, generator=random).where(mask, 0.0)
    return batch.with_sequences(raw_rewards=batch["rewards"]).with_tokens(
        generated=mask,
        values=values,
        new_values=(values + spread * torch.randn(count, generator=random)).where(mask, 0.0),
        returns=torch.randn(count, generator=random).where(mask, 0.0),
        teacher_logprobs=near(),
    )


def in_double(batch: PackedBatch) -> PackedBatch:
    """The batch with its per-token floats in float64."""
    return batch.with_tokens(**{name: x.double() for name, x in batch.token_fields.items() if x.is_floating_point()})
