"""Completions that are marked good or bad."""

from __future__ import annotations

from collections.abc import Sequence

from core_rl.data.completions import PROMPT_FIELDS, find_field, in_format, need_field, read_text
from core_rl.data.records import Labelled
from core_rl.data.rows import Row
from core_rl.data.sample import Message
from core_rl.data.tables import load_records, row_id
from core_rl.errors import DataError
from core_rl.roles.parts import Split
from core_rl_pairs.config import COMPLETION_FIELDS, LABEL_FIELDS, LabelledConfig


class LabelledData:
    """Rows {prompt, completion, label}, or {prompt, chosen, rejected} as two of them, in the order of the data set."""

    def __init__(self, config: LabelledConfig) -> None:
        self._config = config

    def load(self, split: Split, seed: int) -> Sequence[Labelled]:  # noqa: ARG002 — the data set alone decides
        return load_records(self._config, split, source="labelled", convert=self._convert, asked=_asked)

    def _convert(self, row: Row) -> list[Labelled]:
        config = self._config
        if config.completion_field is None and {"chosen", "rejected"} <= set(row.fields):
            marked = {"chosen": True, "rejected": False}
            return [self._record(row, name, desirable=good, suffix=f"#{name}") for name, good in marked.items()]
        field = need_field(row, config.completion_field, "completion_field", COMPLETION_FIELDS)
        label = need_field(row, config.label_field, "label_field", LABEL_FIELDS)
        value = row.fields[label]
        if value not in (0, 1):
            message = f"{row.place}, field {label!r}: a label is true or false, found {value!r}"
            raise DataError(message)
        return [self._record(row, field, desirable=bool(value), suffix="")]

    def _record(self, row: Row, field: str, *, desirable: bool, suffix: str) -> Labelled:
        config = self._config
        asked = find_field(row, config.prompt_field, "prompt_field", PROMPT_FIELDS)
        prompt, (completion,) = in_format(
            None if asked is None else read_text(row, asked), [read_text(row, field)], config, row.place
        )
        if prompt is None and not isinstance(completion, str):  # a whole conversation: its last message is the completion
            prompt, completion = completion[:-1], completion[-1:]
        metadata = {name: value for name, value in row.fields.items() if name not in (field, asked)}
        return Labelled(
            id=f"{row_id(row, config)}{suffix}", prompt=prompt, completion=completion, desirable=desirable, metadata=metadata
        )


def _asked(row: Labelled) -> str | Sequence[Message]:
    return row.prompt if row.prompt is not None else row.completion
