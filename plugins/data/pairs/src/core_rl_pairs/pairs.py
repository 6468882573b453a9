"""Pairs of a preferred and a rejected completion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core_rl.data.completions import PROMPT_FIELDS, find_field, in_format, need_field, read_text
from core_rl.data.records import Pair
from core_rl.data.rows import Row
from core_rl.data.sample import Message
from core_rl.data.tables import load_records, row_id
from core_rl.errors import DataError
from core_rl.roles.parts import Split
from core_rl_pairs.config import PairsConfig


class PairsData:
    """Rows {prompt, chosen, rejected} or {chosen, rejected}, in the order of the data set."""

    def __init__(self, config: PairsConfig) -> None:
        self._config = config

    def load(self, split: Split, seed: int) -> Sequence[Pair]:  # noqa: ARG002 — the data set alone decides
        pairs = load_records(self._config, split, source="pairs", convert=self._convert, asked=asked_of_pair)
        with_margin = [pair.margin is not None for pair in pairs]
        if any(with_margin) and not all(with_margin):
            message = (
                f"pairs: {pairs[with_margin.index(False)].id} has no margin, and others have: give it in all rows, or in none"
            )
            raise DataError(message)
        return pairs

    def _convert(self, row: Row) -> list[Pair]:
        config = self._config
        fields = [
            need_field(row, name, option, ())
            for name, option in ((config.chosen_field, "chosen_field"), (config.rejected_field, "rejected_field"))
        ]
        asked = find_field(row, config.prompt_field, "prompt_field", PROMPT_FIELDS)
        margin = find_field(row, config.margin_field, "margin_field", ("margin",))
        prompt, (chosen, rejected) = in_format(
            None if asked is None else read_text(row, asked), [read_text(row, name) for name in fields], config, row.place
        )
        references = [_number(row, name) for name in (config.ref_chosen_field, config.ref_rejected_field)]
        used = {*fields, asked, margin, config.ref_chosen_field, config.ref_rejected_field}
        return [
            Pair(
                id=row_id(row, config),
                prompt=prompt,
                chosen=chosen,
                rejected=rejected,
                margin=None if margin is None else _number(row, margin),
                ref_chosen=references[0],
                ref_rejected=references[1],
                metadata={name: value for name, value in row.fields.items() if name not in used},
            )
        ]


def asked_of_pair(pair: Pair) -> str | Sequence[Message]:
    """The prompt; without one what the preferred side says before its last message."""
    if pair.prompt is not None:
        return pair.prompt
    return pair.chosen if isinstance(pair.chosen, str) else pair.chosen[:-1] or pair.chosen


def _number(row: Row, field: str) -> float | None:
    value: Any = row.fields.get(field)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        message = f"{row.place}, field {field!r}: expected a number, found {value!r}"
        raise DataError(message)
    return None if value is None else float(value)
