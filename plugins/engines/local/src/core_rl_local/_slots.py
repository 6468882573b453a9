"""The keys and values of all running sequences: one row each, always the first R rows, so that a decode step reads views.

Measured against transformers' own caches: see the README. A finished sequence's row is filled with the last one's.

R running sequences, T tokens of a packed prefill, K heads for keys and values, D their size, L the longest sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import torch
from transformers import Cache

_GROWTH = 64
"""Columns grow by so many, and rows double, so that growth stays rare."""


@attrs.frozen(kw_only=True)
class Segment:
    """Tokens `[start, end)` of a packed prefill are one prompt; its keys and values go to rows `[row, row + copies)`."""

    start: int
    end: int
    row: int
    copies: int


class SlotCache(Cache):  # type: ignore[misc]  # transformers is not typed here
    """What transformers' attention layers see as their cache. `prefill` or `decode` says what the next forward pass is."""

    def __init__(self) -> None:  # the base class would build layers of its own
        self.layers: list[Any] = []
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []
        self.segments: Sequence[Segment] = ()
        self.lengths: torch.Tensor | None = None
        self._longest = 0
        self._rows = 0
        self._even = False
        self._masks: dict[int | None, torch.Tensor | None] = {}

    def prefill(self, segments: Sequence[Segment]) -> None:
        self.segments, self.lengths = segments, None
        self._longest = max(segment.end - segment.start for segment in segments)
        self._rows = max(segment.row + segment.copies for segment in segments)

    def decode(self, lengths: Sequence[int], device: torch.device) -> None:
        """One new token for each of the first `len(lengths)` rows, which hold `lengths` tokens so far."""
        self.segments = ()
        self.lengths = torch.tensor(lengths, device=device)
        self._longest = max(lengths) + 1
        self._rows = len(lengths)
        self._even = min(lengths) == max(lengths)
        self._masks = {}

    def visible(self, window: int | None) -> torch.Tensor | None:
        """[R, 1, 1, L] bool: what each row's new token may look at, itself included; None where that is everything."""
        assert self.lengths is not None
        if window not in self._masks:
            at = torch.arange(self._longest, device=self.lengths.device)
            seen = at[None] <= self.lengths[:, None]
            if window is not None:
                seen &= at[None] > self.lengths[:, None] - window
            self._masks[window] = None if bool(seen.all()) else seen[:, None, None]
        return self._masks[window]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Prefill: [1, K, T, D] -> the same. Decode: [R, K, 1, D] -> everything the rows hold, [R, K, L, D]."""
        if layer_idx == len(self.keys):
            self.keys.append(self._empty(key_states))
            self.values.append(self._empty(value_states))
        pairs = ((self.keys, key_states), (self.values, value_states))
        for held, _new in pairs:
            held[layer_idx] = self._roomy(held[layer_idx])
        if self.lengths is None:
            for held, new in pairs:
                for part in self.segments:
                    rows = held[layer_idx][part.row : part.row + part.copies, :, : part.end - part.start]
                    rows.copy_(new[:, :, part.start : part.end].expand_as(rows))
            return key_states, value_states
        for held, new in pairs:
            if self._even:
                held[layer_idx][: self._rows, :, self._longest - 1].copy_(new[:, :, 0])
            else:
                rows = torch.arange(self._rows, device=new.device)
                held[layer_idx][rows, :, self.lengths] = new[:, :, 0]
        return tuple(held[layer_idx][: self._rows, :, : self._longest] for held, _ in pairs)  # type: ignore[return-value]

    def move(self, source: int, target: int, length: int) -> None:
        """Row `source` takes the place of row `target`."""
        for held in (*self.keys, *self.values):
            held[target, :, :length] = held[source, :, :length]

    def copy_out(self, row: int, length: int) -> list[torch.Tensor]:
        """The row's keys and values of every layer, [K, length, D] each."""
        return [held[row, :, :length].clone() for held in (*self.keys, *self.values)]

    def copy_in(self, row: int, stash: Sequence[torch.Tensor]) -> None:
        """What `copy_out` gave goes into this row; earlier rows must exist already."""
        self._rows, self._longest = row + 1, stash[0].shape[1]
        for held in (self.keys, self.values):
            held[:] = [self._roomy(tensor) for tensor in held]
        for tensor, kept in zip((*self.keys, *self.values), stash, strict=True):
            tensor[row, :, : kept.shape[1]] = kept

    def get_seq_length(self, layer_idx: int = 0) -> int:
        del layer_idx
        return 0 if self.lengths is None else self._longest - 1

    def release(self) -> None:
        """Give the memory back; rows are lost."""
        self.keys, self.values = [], []

    def _empty(self, like: torch.Tensor) -> torch.Tensor:
        return like.new_zeros((0, like.shape[1], 0, like.shape[3]))

    def _roomy(self, held: torch.Tensor) -> torch.Tensor:
        rows, heads, columns, size = held.shape
        if rows >= self._rows and columns >= self._longest:
            return held
        needed = rows if rows >= self._rows else max(2 * rows, self._rows)
        wider = held.new_zeros((needed, heads, max(columns, _up(self._longest)), size))
        wider[:rows, :, :columns] = held
        return wider


def _up(length: int) -> int:
    return -(-length // _GROWTH) * _GROWTH
