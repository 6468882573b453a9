"""Pieces of text of similar length together, so that a padded block has little padding and there are few blocks."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

_CALL = 8192
"""What one more block costs, in attention scores of one head: its kernels start, its mask is made."""


@attrs.define
class Piece:
    """`length` tokens from `start` in the packed row, and the pieces that continue it."""

    start: int
    length: int
    branches: list[Piece] = attrs.field(factory=list)


def bucketize(shapes: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Lists of indices of pieces, each given as (own length, length of its prefix), that go into one block.

    Shortest first; a piece joins the block before it when its padding costs less than a block of its own.
    """
    buckets: list[list[int]] = []
    joined = 0
    for index in sorted(range(len(shapes)), key=lambda i: (shapes[i], i)):
        own, prefix = shapes[index]
        alone = _cost(1, own, prefix) + _CALL
        if buckets:
            longest = max(prefix, *(shapes[i][1] for i in buckets[-1]))
            together = _cost(len(buckets[-1]) + 1, own, longest)
            if together <= joined + alone:
                buckets[-1].append(index)
                joined = together
                continue
        buckets.append([index])
        joined = alone - _CALL
    return [sorted(bucket) for bucket in buckets]


def _cost(count: int, own: int, prefix: int) -> int:
    return count * own * (own + prefix)
