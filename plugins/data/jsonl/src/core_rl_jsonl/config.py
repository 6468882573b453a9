"""Options of the data source `jsonl`."""

from __future__ import annotations

from typing import Any

import attrs

from core_rl.data.rows import RowOptions, check_fraction


def _check_eval(config: JsonlConfig, _: attrs.Attribute[Any], value: float | None) -> None:
    check_fraction(config, _, value)
    if value is not None and config.eval_path is not None:
        message = "eval_path and eval_fraction both say what is held out; leave one of them out"
        raise ValueError(message)


@attrs.frozen(kw_only=True)
class JsonlConfig(RowOptions):
    """Where the files are. How a row becomes a prompt is said by `RowOptions`."""

    path: str | tuple[str, ...] = attrs.field(
        metadata={"help": "a file, a pattern such as data/*.jsonl, or a list of them; .gz is read too"}
    )
    eval_path: str | tuple[str, ...] | None = attrs.field(
        default=None, metadata={"help": "held-out rows: a file, a pattern or a list of them"}
    )
    eval_fraction: float | None = attrs.field(
        default=None,
        validator=_check_eval,
        metadata={"help": "without eval_path: hold out this part of path, by a hash of the prompt"},
    )
