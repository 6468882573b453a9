"""Which tokens of a micro-batch are computed, where they stand in the packed row, and which attention reads which.

A group's common leading tokens are a TRUNK, computed once; what follows in each of its sequences is a BRANCH. A sequence
that shares nothing is a trunk alone. Nothing behind the last token that predicts another one is computed.

T computed tokens, M tokens to score (those of the loss mask), G trunks and B branches in a bucket, R rows of all buckets with
their padding.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import attrs
import torch

from core_rl.data.batch import PackedBatch
from core_rl.hf.packed.buckets import Piece, bucketize


@attrs.frozen(kw_only=True, eq=False)
class Bucket:
    """Pieces of similar length, padded on the right to one [rows, width] block. `parents` [B] are their rows among the trunks.

    `masks` gives the additive mask of a block, or None where plain causal attention is right.
    """

    lengths: tuple[int, ...]
    width: int
    prefix_lengths: tuple[int, ...] = ()
    prefix_width: int = 0
    parents: torch.Tensor | None = None
    branches: tuple[Bucket, ...] = ()
    device: torch.device

    @functools.lru_cache(maxsize=4)  # noqa: B019 - dies with the layout, which a micro-batch makes anew
    def mask(self, window: int | None, dtype: torch.dtype) -> torch.Tensor | None:
        """[rows or 1, 1, width, prefix_width + width], 0 where a query may look and -inf where not."""
        longest = max(a + b for a, b in zip(self.prefix_lengths or (0,) * len(self.lengths), self.lengths, strict=True))
        if window is not None and window >= longest:
            window = None
        if self.parents is None and window is None:
            return None
        prefixes = torch.tensor(
            sorted(set(self.prefix_lengths)) if len(set(self.prefix_lengths)) == 1 else self.prefix_lengths or (0,)
        )
        own = torch.arange(self.width)
        query = prefixes[:, None] + own  # position of each query in its sequence
        before = torch.arange(self.prefix_width)
        before = torch.where(before < prefixes[:, None], before, torch.iinfo(torch.int64).max)  # padding is never in the past
        key = torch.cat([before, query], 1)
        seen = key[:, None, :] <= query[:, :, None]
        if window is not None:
            seen &= key[:, None, :] > query[:, :, None] - window
        mask = torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, float("-inf"))
        return mask[:, None].to(self.device)


@attrs.frozen(kw_only=True, eq=False)
class Layout:
    """`tokens`, `positions` [T]; `predictors` [M]: the row whose hidden state predicts the m-th token to score.

    `padded` [R] is the row of every place of the buckets (0 at padding), `places` [T] its inverse, `padding` the padded places.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    scored: torch.Tensor
    predictors: torch.Tensor
    targets: torch.Tensor
    buckets: tuple[Bucket, ...]
    padded: torch.Tensor
    places: torch.Tensor
    padding: torch.Tensor

    @property
    def block_rows(self) -> list[int]:
        """Places of each bucket, trunks and their branches in turn, as they follow each other in `padded`."""
        return [len(block.lengths) * block.width for block in blocks(self.buckets)]


def blocks(buckets: Iterable[Bucket]) -> list[Bucket]:
    return [block for bucket in buckets for block in (bucket, *bucket.branches)]


def computed_lengths(batch: PackedBatch) -> list[int]:
    """[S]: the tokens of a sequence up to the one that predicts its last scored token."""
    last = torch.zeros(batch.num_sequences, dtype=torch.int64, device=batch.tokens.device)
    where = batch.loss_mask.nonzero()[:, 0]
    last.scatter_reduce_(0, batch.sequence_ids[where], batch.positions[where].long(), "amax")
    return [int(length) for length in last.tolist()]


def make_layout(batch: PackedBatch, prefix_lengths: Sequence[int], device: torch.device) -> Layout:
    """The layout of a micro-batch on the CPU; `prefix_lengths` [S] tokens are shared by the sequences of a group (0: none)."""
    starts = batch.cu_seqlens.tolist()
    ends = computed_lengths(batch)
    groups: dict[object, list[int]] = {}
    group_ids = batch["group"].tolist() if "group" in batch else range(batch.num_sequences)
    for sequence, group in enumerate(group_ids):
        if ends[sequence] > 0:
            shares = prefix_lengths[sequence] > 0
            groups.setdefault(("group", group) if shares else ("sequence", sequence), []).append(sequence)

    rows: list[torch.Tensor] = []  # indices into the batch, in the order of the packed row
    location = torch.zeros(batch.num_tokens, dtype=torch.int64)  # of a batch token in the packed row
    trunks: list[Piece] = []
    filled = 0

    def place(start: int, end: int) -> int:
        nonlocal filled
        index = torch.arange(start, end)
        rows.append(index)
        location[index] = torch.arange(filled, filled + end - start)
        filled += end - start
        return filled - (end - start)

    for members in groups.values():
        first = members[0]
        shared = min(prefix_lengths[first], *(ends[s] for s in members)) if len(members) > 1 else ends[first]
        trunk = Piece(place(starts[first], starts[first] + shared), shared)
        for sequence in members:
            start = starts[sequence]
            location[start : start + shared] = location[starts[first] : starts[first] + shared].clone()
            if ends[sequence] > shared:
                trunk.branches.append(Piece(place(start + shared, start + ends[sequence]), ends[sequence] - shared))
        trunks.append(trunk)

    source = torch.cat(rows)
    scored = batch.loss_mask.nonzero()[:, 0]
    buckets, padded, padding = _blocks(trunks, device)
    is_real = torch.ones(padded.numel(), dtype=torch.bool).index_fill_(0, padding, value=False)
    places = torch.empty(filled, dtype=torch.int64)
    places[padded[is_real]] = is_real.nonzero()[:, 0]
    return Layout(
        tokens=batch.tokens[source].to(device),
        positions=batch.positions[source].long().to(device),
        scored=scored.to(device),
        predictors=location[scored - 1].to(device),
        targets=batch.tokens[scored].to(device),
        buckets=buckets,
        padded=padded.to(device),
        places=places.to(device),
        padding=padding.to(device),
    )


def _blocks(trunks: list[Piece], device: torch.device) -> tuple[tuple[Bucket, ...], torch.Tensor, torch.Tensor]:
    """Buckets of trunks, each with its buckets of branches; the row of every place, and which places are padding."""
    places: list[int] = []
    padding: list[int] = []

    def fill(pieces: Sequence[Piece]) -> int:
        width = max(piece.length for piece in pieces)
        for piece in pieces:
            places.extend(range(piece.start, piece.start + piece.length))
            padding.extend(range(len(places), len(places) + width - piece.length))
            places.extend([0] * (width - piece.length))
        return width

    buckets = []
    for chosen in bucketize([(trunk.length, 0) for trunk in trunks]):
        members = [trunks[i] for i in chosen]
        width = fill(members)
        pairs = [(row, branch) for row, trunk in enumerate(members) for branch in trunk.branches]
        branches = []
        for selected in bucketize([(branch.length, members[row].length) for row, branch in pairs]):
            parents = [pairs[i][0] for i in selected]
            pieces = [pairs[i][1] for i in selected]
            branches.append(
                Bucket(
                    lengths=tuple(piece.length for piece in pieces),
                    width=fill(pieces),
                    prefix_lengths=tuple(members[row].length for row in parents),
                    prefix_width=width,
                    parents=torch.tensor(parents, device=device),
                    device=device,
                )
            )
        lengths = tuple(member.length for member in members)
        buckets.append(Bucket(lengths=lengths, width=width, branches=tuple(branches), device=device))
    return tuple(buckets), torch.tensor(places), torch.tensor(padding, dtype=torch.int64)
