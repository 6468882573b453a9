"""The packed, token-aligned batch: the one shape in which tokens travel.

N tokens in all, S sequences. Index t speaks of token t: its log-probability is that of token t given what stands before it in
its own sequence. The first token of a sequence is never in `loss_mask`. There is no padding and no shift by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import attrs
import torch

PER_TOKEN = frozenset(
    {
        "advantages",
        "entropy",
        "generated",
        "kl_rewards",
        "old_logprobs",
        "ref_logprobs",
        "returns",
        "rollout_logprobs",
        "teacher_logprobs",
        "turn_rewards",
        "values",
        "versions",
        "weights",
    }
)
"""Well-known per-token tensors [N] beside the four of the layout; a plugin may add more.

`generated` bool is where the policy wrote, whatever rejections have taken out of `loss_mask` since. `turn_rewards` stand at the last
token of their turn.
"""

PER_SEQUENCE = frozenset(
    {
        "chosen",
        "desirable",
        "greedy_rewards",
        "group",
        "margin",
        "raw_rewards",
        "ref_sequence_logprobs",
        "rewards",
        "truncated",
    }
)
"""Well-known per-sequence tensors [S]: rewards float32 (NaN: the reward failed), group int64, truncated bool.

`raw_rewards` are those before `reward_norm` and the KL penalty; `rewards/<name>` and `reward_weights/<name>` are those of one entry of
`rewards` and its weight. Of offline rows: chosen bool and margin float32 of pairs (a pair is a group), desirable bool of labelled ones,
ref_sequence_logprobs float32 where they were known before training.
"""


@attrs.frozen(kw_only=True, eq=False)
class PackedBatch:
    """tokens [N] int64 · cu_seqlens [S+1] int32 · positions [N] int32 · loss_mask [N] bool · and named extras.

    Immutable: `with_tokens` and `with_sequences` return a batch that has more.
    """

    tokens: torch.Tensor
    cu_seqlens: torch.Tensor
    positions: torch.Tensor
    loss_mask: torch.Tensor
    token_fields: Mapping[str, torch.Tensor] = attrs.field(factory=dict)
    sequence_fields: Mapping[str, torch.Tensor] = attrs.field(factory=dict)

    @property
    def num_tokens(self) -> int:
        return self.tokens.numel()

    @property
    def num_sequences(self) -> int:
        return self.cu_seqlens.numel() - 1

    @property
    def lengths(self) -> torch.Tensor:
        """[S] int64: tokens of each sequence."""
        return self.cu_seqlens.long().diff()

    @property
    def sequence_ids(self) -> torch.Tensor:
        """[N] int64: the sequence that each token belongs to."""
        return torch.repeat_interleave(
            torch.arange(self.num_sequences, device=self.tokens.device), self.lengths, output_size=self.num_tokens
        )

    def __getitem__(self, name: str) -> torch.Tensor:
        """An extra by its name. KeyError names what the batch has."""
        if name in self.token_fields:
            return self.token_fields[name]
        if name in self.sequence_fields:
            return self.sequence_fields[name]
        message = f"the batch has no {name!r}; it has {sorted({*self.token_fields, *self.sequence_fields})}"
        raise KeyError(message)

    def __contains__(self, name: object) -> bool:
        return name in self.token_fields or name in self.sequence_fields

    def with_tokens(self, **fields: torch.Tensor) -> Self:
        """The batch with more per-token tensors [N]."""
        return attrs.evolve(self, token_fields={**self.token_fields, **fields})

    def with_sequences(self, **fields: torch.Tensor) -> Self:
        """The batch with more per-sequence tensors [S]."""
        return attrs.evolve(self, sequence_fields={**self.sequence_fields, **fields})

    def with_loss_mask(self, loss_mask: torch.Tensor) -> Self:
        return attrs.evolve(self, loss_mask=loss_mask)

    def token_indices(self, sequences: Sequence[int]) -> torch.Tensor:
        """[M] int64: where the tokens of these sequences stand, in the given order."""
        starts = self.cu_seqlens.tolist()
        parts = [torch.arange(starts[s], starts[s + 1], device=self.tokens.device) for s in sequences]
        return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.int64, device=self.tokens.device)

    def select(self, sequences: Sequence[int]) -> Self:
        """A batch of these sequences alone, in the given order."""
        tokens = self.token_indices(sequences)
        rows = torch.as_tensor(list(sequences), dtype=torch.int64, device=self.tokens.device)
        lengths = self.lengths[rows]
        cu_seqlens = torch.zeros(len(sequences) + 1, dtype=torch.int32, device=self.tokens.device)
        cu_seqlens[1:] = lengths.cumsum(0)
        return attrs.evolve(
            self,
            tokens=self.tokens[tokens],
            cu_seqlens=cu_seqlens,
            positions=self.positions[tokens],
            loss_mask=self.loss_mask[tokens],
            token_fields={name: value[tokens] for name, value in self.token_fields.items()},
            sequence_fields={name: value[rows] for name, value in self.sequence_fields.items()},
        )

    def split(self, parts: Iterable[Sequence[int]]) -> list[Self]:
        """One batch per list of sequences."""
        return [self.select(part) for part in parts]

    def to(self, device: torch.device | str) -> Self:
        return attrs.evolve(
            self,
            tokens=self.tokens.to(device),
            cu_seqlens=self.cu_seqlens.to(device),
            positions=self.positions.to(device),
            loss_mask=self.loss_mask.to(device),
            token_fields={name: value.to(device) for name, value in self.token_fields.items()},
            sequence_fields={name: value.to(device) for name, value in self.sequence_fields.items()},
        )
