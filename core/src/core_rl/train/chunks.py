"""Rows that are computed a chunk at a time. Torch-free."""

from __future__ import annotations


def chunks(count: int, rows: int) -> list[slice]:
    """Full chunks but for the first, so that the last, which is not computed twice, is as large as can be. An empty one for nothing."""
    if count == 0:
        return [slice(0, 0)]
    starts = range(count % rows, count, rows)
    first = [slice(0, count % rows)] if count % rows else []
    return first + [slice(start, start + rows) for start in starts]
