"""From weights under Hugging Face names to the parameter of one rank, and back: one rule for each of megatron's parameters.

Megatron keeps q, k and v in one matrix, the heads that share a key together; gate and up in one; and cuts along an axis over the
tensor-parallel ranks. Each rank's part is made of the same axis' part of each Hugging Face weight: nothing else is ever read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import attrs
import torch

Fuse = Literal["one", "rows", "heads"]
Place = Literal["first", "layer", "last"]

VOCABULARY_MULTIPLE = 64
"""The vocabulary is padded to it, whatever the layout, so that checkpoints of one layout load in another."""


@attrs.frozen(kw_only=True)
class Rule:
    """`local` is megatron's name in the model part that owns it, with `{layer}` and `{expert}` counted from 0 in that part.

    `axis`: what tensor parallelism cuts; None: every rank has the whole. `fuse`, how several weights become one: `rows` under each
    other, `heads` q, k and v by groups of the query heads that share a key, `group_rows` of each of the three in a group.
    """

    hf: tuple[str, ...]
    local: str
    axis: int | None = None
    fuse: Fuse = "one"
    group_rows: tuple[int, ...] = ()
    place: Place = "layer"
    layer: int = 0
    expert: int | None = None
    pads: bool = False
    alias: bool = False
    """A second copy of a tied weight: read, but not written."""
    private: bool = False
    """The engine's own: no part of the exported model."""
    optional: bool = False
    """May be missing in a folder: a new head."""

    def span(self, length: int, rank: int, ranks: int) -> tuple[int, int]:
        """Where along the axis a rank's part of a weight of this `length` begins and ends; beyond the end there is padding."""
        part = padded(length, ranks) // ranks if self.pads else length // ranks
        return rank * part, (rank + 1) * part

    def join(self, pieces: Sequence[torch.Tensor]) -> torch.Tensor:
        """One rank's parts of the Hugging Face weights -> its parameter."""
        if self.fuse == "one":
            return pieces[0]
        if self.fuse == "rows":
            return torch.cat(list(pieces))
        groups = pieces[0].shape[0] // self.group_rows[0]
        return torch.cat([piece.unflatten(0, (groups, -1)) for piece in pieces], 1).flatten(0, 1)

    def split(self, parameter: torch.Tensor) -> list[torch.Tensor]:
        """The inverse of `join`."""
        if self.fuse == "one":
            return [parameter]
        if self.fuse == "rows":
            return list(parameter.chunk(len(self.hf)))
        groups = parameter.unflatten(0, (-1, sum(self.group_rows)))
        return [part.flatten(0, 1) for part in groups.split(self.group_rows, 1)]


def padded(vocabulary: int, ranks: int) -> int:
    multiple = math.lcm(VOCABULARY_MULTIPLE, ranks)
    return -(-vocabulary // multiple) * multiple
