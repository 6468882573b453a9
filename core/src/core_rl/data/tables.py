"""Where the rows of an offline data set come from, whatever they are: files, saved folders, the hub; and what is held out. Torch-free."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar

import attrs

from core_rl.data.jsonl_files import find_files, read_jsonl
from core_rl.data.rows import Row, check_fraction, held_out_by
from core_rl.data.sample import Message
from core_rl.errors import DataError
from core_rl.roles.parts import Split

Record = TypeVar("Record")


def _check_eval(options: TableOptions, _: attrs.Attribute[Any], value: float | None) -> None:
    check_fraction(options, _, value)
    if value is not None and (options.eval_path is not None or options.eval_split is not None):
        message = "eval_fraction holds out a part of path, and eval_path or eval_split says what is held out: leave one out"
        raise ValueError(message)


@attrs.frozen(kw_only=True)
class TableOptions:
    """Which rows. A data plugin's config inherits these."""

    path: str | tuple[str, ...] = attrs.field(
        metadata={
            "help": "a .jsonl, .jsonl.gz, .json, .parquet, .csv or .arrow file, a pattern, a list of them; a folder (also of save_to_disk) "
            "or a hub name; all but JSON Lines need the package datasets"
        }
    )
    eval_path: str | tuple[str, ...] | None = attrs.field(default=None, metadata={"help": "held-out rows: the same"})
    eval_split: str | None = attrs.field(default=None, metadata={"help": "the held-out split of a data set, such as test"})
    eval_fraction: float | None = attrs.field(
        default=None,
        validator=_check_eval,
        metadata={"help": "without either: hold out this part of path, by a hash of what is asked"},
    )
    split: str = attrs.field(default="train", metadata={"help": "the split of a data set to train on"})
    subset: str | None = attrs.field(default=None, metadata={"help": "the configuration of a data set on the hub"})
    id_field: str | None = attrs.field(default=None, metadata={"help": "the field with the row's id; null numbers the rows"})
    format: Literal["chat", "text"] = attrs.field(
        default="chat",
        metadata={
            "help": "chat: a prompt that is text becomes a user message, and its completion the assistant's; text: both go to the model "
            "without a chat template"
        },
    )
    system_prompt: str | None = attrs.field(
        default=None, metadata={"help": "put before every conversation; one that has a system message keeps its own"}
    )
    limit: int | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.ge(1)),
        metadata={"help": "only the first so many rows of each split"},
    )


def load_records(
    options: TableOptions,
    split: Split,
    *,
    source: str,
    convert: Callable[[Row], Sequence[Record]],
    asked: Callable[[Record], str | Sequence[Message]],
) -> list[Record]:
    """The rows of a split, converted. `asked` is what must not be both learnt and held out; `source` begins an error.

    Raises:
        DataError: a row that cannot be converted, nothing held out, or no row at all.
    """
    if split == "eval" and options.eval_path is None and options.eval_split is None and options.eval_fraction is None:
        message = f"{source}: nothing is held out; set eval_path, eval_split, or eval_fraction to hold out a part of path"
        raise DataError(message)
    records = [record for row in _rows(options, split, source) for record in convert(row)]
    if not records:
        message = f"{source}: there are no rows in {options.path}"
        raise DataError(message)
    if options.eval_fraction is not None:
        records = held_out_by(records, split, options.eval_fraction, asked=asked, source=source)
    return records[: options.limit]


def row_id(row: Row, options: TableOptions) -> str:
    if options.id_field is None:
        return row.place
    if row.fields.get(options.id_field) is None:
        message = f"{row.place}: field {options.id_field!r} (id_field) is missing"
        raise DataError(message)
    return str(row.fields[options.id_field])


def _rows(options: TableOptions, split: Split, source: str) -> Iterator[Row]:
    held_out = split == "eval"
    path = options.eval_path if held_out and options.eval_path is not None else options.path
    name = options.eval_split if held_out and options.eval_split is not None else options.split
    for one in (path,) if isinstance(path, str) else path:
        if one.removesuffix(".gz").endswith(".jsonl"):
            for file in find_files([one], source=source):
                yield from read_jsonl(file)
        else:
            for table in map(str, find_files([one], source=source)) if any(sign in one for sign in "*?") else [one]:
                yield from _table(table, name, options.subset, source)


def _table(name: str, split: str, subset: str | None, source: str) -> Iterator[Row]:
    from core_rl.data.hf_tables import check_datasets, load_table

    check_datasets(source)
    table = load_table(name, split, source=source, subset=subset)
    for number, fields in enumerate(table):
        yield Row(f"{name}/{split}:{number}", fields)
