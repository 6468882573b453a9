"""From encoded rows to one packed batch. Every row is a group: both sides of a pair belong together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from core_rl.data.batch import PackedBatch
from core_rl.data.records import Labelled, Pair
from core_rl.errors import DataError

if TYPE_CHECKING:
    from core_rl.data.encode import Encoded
    from core_rl.data.records import Conversation

    OfflineRow = Conversation | Pair | Labelled


def pack_rows(rows: Sequence[tuple[OfflineRow, Sequence[Encoded]]]) -> PackedBatch:
    """The sequences of all rows in order, with `group` [S] the index of the row.

    Pairs bring `chosen` [S] bool, and `margin` [S] float32 where every row has one; labelled rows bring `desirable` [S] bool; both
    bring `ref_sequence_logprobs` [S] float32 where every row has them.

    Raises:
        DataError: there is no row.
    """
    if not rows:
        message = "there is nothing to pack: no row is left"
        raise DataError(message)
    sequences = [one for _, encoded in rows for one in encoded]
    lengths = torch.tensor([len(one.tokens) for one in sequences])
    cu_seqlens = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    starts = torch.repeat_interleave(cu_seqlens[:-1], lengths)
    return PackedBatch(
        tokens=torch.tensor([token for one in sequences for token in one.tokens], dtype=torch.int64),
        cu_seqlens=cu_seqlens.int(),
        positions=(torch.arange(starts.numel()) - starts).int(),
        loss_mask=torch.tensor([flag for one in sequences for flag in one.learnt], dtype=torch.bool),
        sequence_fields={
            "group": torch.tensor([index for index, (_, encoded) in enumerate(rows) for _ in encoded], dtype=torch.int64),
            **_of_pairs([row for row, _ in rows if isinstance(row, Pair)], len(rows)),
            **_of_labelled([row for row, _ in rows if isinstance(row, Labelled)], len(rows)),
        },
    )


def _of_pairs(pairs: Sequence[Pair], rows: int) -> dict[str, torch.Tensor]:
    if len(pairs) != rows:
        return {}
    fields = {"chosen": torch.tensor([True, False] * rows)}
    margins = [pair.margin for pair in pairs if pair.margin is not None]
    if len(margins) == rows:
        fields["margin"] = torch.tensor(margins, dtype=torch.float32).repeat_interleave(2)
    return fields | _references([value for pair in pairs for value in (pair.ref_chosen, pair.ref_rejected)])


def _of_labelled(labelled: Sequence[Labelled], rows: int) -> dict[str, torch.Tensor]:
    if len(labelled) != rows:
        return {}
    desirable = {"desirable": torch.tensor([row.desirable for row in labelled])}
    return desirable | _references([row.ref_completion for row in labelled])


def _references(values: Sequence[float | None]) -> dict[str, torch.Tensor]:
    known = [value for value in values if value is not None]
    return {"ref_sequence_logprobs": torch.tensor(known, dtype=torch.float32)} if len(known) == len(values) else {}
