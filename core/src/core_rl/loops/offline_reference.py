"""Log-probabilities of the reference policy, summed over each completion, known before training: from the data set, or one pass over it.

Then no copy of the model is kept. A resumed run reads them from its folder; the weights of its first moment would give them again.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from core_rl.data.records import Labelled, Pair
from core_rl.errors import DataError
from core_rl.numerics.segments import segment_sum
from core_rl.run.files import write_atomically

if TYPE_CHECKING:
    from core_rl.loops.offline_parts import OfflineParts
    from core_rl.loops.session import Session
    from core_rl.roles.parts import Split

Row = Any
_FIELDS: dict[type, tuple[str, ...]] = {Pair: ("ref_chosen", "ref_rejected"), Labelled: ("ref_completion",)}


def with_references(parts: OfflineParts, session: Session, rows: Sequence[Row], *, split: Split, folder: Path) -> Sequence[Row]:
    """The rows with what the reference says of their completions, kept in the run's folder."""
    path = folder / f"reference-{split}.json"
    if all(map(_known, rows)):
        return rows
    if not path.is_file():
        report = functools.partial(session.journal.progress, "reference")
        write_atomically(path, json.dumps(_computed(parts, rows, report)))
    return _joined(rows, json.loads(path.read_text(encoding="utf-8")))


def references_of(parts: OfflineParts, rows: Sequence[Row]) -> Sequence[Row]:
    """The same, without a folder."""
    return rows if all(map(_known, rows)) else _joined(rows, _computed(parts, rows, lambda _done, _total: None))


def _joined(rows: Sequence[Row], values: Sequence[list[float] | None]) -> list[Row]:
    return [
        attrs.evolve(row, **dict(zip(_fields(row), said, strict=True))) if said else row
        for row, said in zip(rows, values, strict=True)
    ]


def _computed(parts: OfflineParts, rows: Sequence[Row], report: Callable[[int, int], None]) -> list[list[float] | None]:
    """Of each row its sums, one for each completion; None for a row that is too long. The engine's weights are the reference's.

    Raises:
        DataError: some rows have them already and others have not, or rows of this kind have no place for them.
    """
    lacking = [row.id for row in rows if not _known(row)]
    if len(lacking) < len(rows):
        message = (
            f"data: row {lacking[0]} has no reference log-probabilities, and others have: give them in all rows, or in none"
        )
        raise DataError(message)
    values: list[list[float] | None] = []
    size = parts.file.run.prompts_per_step
    for start in range(0, len(rows), size):
        report(start, len(rows))
        values += _of_rows(parts, rows[start : start + size])
    return values


def _of_rows(parts: OfflineParts, rows: Sequence[Row]) -> list[list[float] | None]:
    made = parts.batch(rows)
    if made.batch is None:
        return [None] * len(rows)
    logprobs = parts.train.forward(made.batch, ["logprobs"])["logprobs"]
    sums = iter(segment_sum(logprobs, made.batch.cu_seqlens, made.batch.loss_mask).tolist())
    return [[next(sums) for _ in _fields(row)] if kept else None for row, kept in zip(rows, made.kept, strict=True)]


def _known(row: Row) -> bool:
    return all(getattr(row, name) is not None for name in _fields(row))


def _fields(row: Row) -> tuple[str, ...]:
    if type(row) not in _FIELDS:
        message = f"data: row {row.id} is no pair and no labelled completion, so that it has no place for a reference: reference: frozen"
        raise DataError(message)
    return _FIELDS[type(row)]
