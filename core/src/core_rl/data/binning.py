"""Which sequences go together: bins of a token budget, and parts of nearly equal size. Torch-free, deterministic.

Both return lists of indices, every index exactly once, ascending inside a list.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import attrs

from core_rl.errors import DataError


def first_fit_decreasing(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Bins whose lengths sum to at most `budget`; a length above it has a bin of its own. At most 11/9 of the fewest bins + 1.

    Longest first, each into the first bin with room, which a tree of maxima finds in log(bins) steps. Bins come in order of their
    first index.
    """
    if budget < 1:
        message = f"a token budget is at least 1, found {budget}"
        raise DataError(message)
    leaves = 1
    while leaves < len(lengths):
        leaves *= 2
    room = [budget] * (2 * leaves)  # room[node] is the most room in the bins below it; the leaves are the bins
    bins: dict[int, list[int]] = {}
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        need = min(lengths[index], budget)
        node = 1
        while node < leaves:
            node = 2 * node if room[2 * node] >= need else 2 * node + 1
        bins.setdefault(node, []).append(index)
        room[node] -= need
        while node > 1:
            node //= 2
            room[node] = max(room[2 * node], room[2 * node + 1])
    return sorted(sorted(members) for members in bins.values())


@attrs.define(order=False)
class _Partition:
    """Disjoint sets with their sums, largest first; sets that are still empty are left out."""

    sets: list[tuple[int, list[int]]]

    def spread(self, parts: int) -> int:
        return self.sets[0][0] - (self.sets[-1][0] if len(self.sets) == parts else 0)

    def combine(self, other: _Partition, parts: int) -> _Partition:
        """The largest set of one with the smallest of the other, and so on."""
        sets = list(self.sets)
        for rank, (total, members) in enumerate(other.sets):
            partner = parts - 1 - rank
            if partner < len(self.sets):
                sets[partner] = (sets[partner][0] + total, sets[partner][1] + members)
            else:
                sets.append((total, members))
        return _Partition(sorted(sets, key=lambda item: -item[0]))


def karmarkar_karp(lengths: Sequence[int], parts: int, *, equal_size: bool = False) -> list[list[int]]:
    """`parts` lists with sums as equal as the largest differencing method makes them (Karmarkar and Karp, 1982).

    With `equal_size` every list has the same number of indices, which must divide. With fewer indices than parts, some are empty.
    """
    if parts < 1:
        message = f"a number of parts is at least 1, found {parts}"
        raise DataError(message)
    if equal_size and len(lengths) % parts:
        message = f"{len(lengths)} sequences do not divide into {parts} parts of equal size"
        raise DataError(message)
    longest_first = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    width = parts if equal_size else 1
    heap = []
    for order, start in enumerate(range(0, len(lengths), width)):
        state = _Partition([(lengths[i], [i]) for i in longest_first[start : start + width]])
        heap.append((-state.spread(parts), order, state))
    heapq.heapify(heap)
    for order in range(len(heap), 2 * len(heap) - 1):
        first, second = heapq.heappop(heap)[2], heapq.heappop(heap)[2]
        state = first.combine(second, parts)
        heapq.heappush(heap, (-state.spread(parts), order, state))
    lists = [sorted(members) for _, members in heap[0][2].sets] if heap else []
    return sorted(lists) + [[] for _ in range(parts - len(lists))]
