"""From the rows of a data set to prompts: which field is what, templates, ids, the held-out split. Torch-free.

Every data plugin whose source is a table uses this, so that they share their options and their error messages.
"""

from __future__ import annotations

import hashlib
import json
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import attrs

from core_rl.data.prompts import make_prompt
from core_rl.data.sample import Message, Prompt
from core_rl.errors import DataError
from core_rl.roles.parts import Split
from core_rl.suggest import did_you_mean

Item = TypeVar("Item")

PROMPT_FIELDS = ("prompt", "messages", "question", "problem")
ANSWER_FIELDS = ("answer", "solution", "ground_truth", "label")

_SLOT = re.compile(r"\{\{(\w+)\}\}|\{([A-Za-z_]\w*)\}")


def check_regex(_: Any, __: attrs.Attribute[Any], value: str | None) -> None:
    """An attrs validator: the value is a regular expression, or None."""
    try:
        re.compile(value or "")
    except re.error as error:
        message = f"not a regular expression: {error} in {value!r}"
        raise ValueError(message) from None


def check_fraction(_: Any, __: attrs.Attribute[Any], value: float | None) -> None:
    """An attrs validator: the value is between 0 and 1, both excluded, or None."""
    if value is not None and not 0.0 < value < 1.0:
        message = f"must be a fraction between 0 and 1, found {value}"
        raise ValueError(message)


@attrs.frozen(kw_only=True)
class RowOptions:
    """How a row becomes a prompt. A data plugin's config inherits these."""

    prompt_field: str | None = attrs.field(
        default=None,
        metadata={
            "help": "the field with the prompt, text or a list of messages; null: the first of " + ", ".join(PROMPT_FIELDS)
        },
    )
    answer_field: str | None = attrs.field(
        default=None,
        metadata={"help": "the field with the reference answer; null: the first of " + ", ".join(ANSWER_FIELDS) + ", if any"},
    )
    answer_regex: str | None = attrs.field(
        default=None,
        validator=check_regex,
        metadata={"help": "takes the answer out of its field: the last match, its first group if it has one"},
    )
    id_field: str | None = attrs.field(default=None, metadata={"help": "the field with the row's id; null numbers the rows"})
    format: Literal["chat", "text"] = attrs.field(
        default="chat",
        metadata={"help": "chat: text becomes a user message; text: it goes to the model without a chat template"},
    )
    system_prompt: str | None = attrs.field(
        default=None, metadata={"help": "put before every prompt; a row that has a system message keeps its own"}
    )
    template: str | None = attrs.field(
        default=None,
        metadata={
            "help": "the prompt's text, with {field} for a field of the row, a list as lines A. …, B. …; {{field}} stays as {field}"
        },
    )
    limit: int | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.ge(1)),
        metadata={"help": "only the first so many rows of each split"},
    )


@attrs.frozen
class Row:
    """A row and its place. `place` names the row in errors and, without an id field, is its id."""

    place: str
    fields: Mapping[str, Any]


def rows_to_prompts(rows: Iterable[Row], options: RowOptions, *, source: str) -> list[Prompt]:
    """The prompts of a table, in its order.

    Raises:
        DataError: a row that is no prompt (its place and what is wrong), two rows of one id, or no row at all.
    """
    prompts: list[Prompt] = []
    places: dict[str, str] = {}
    for row in rows:
        prompt = row_to_prompt(row, options)
        if prompt.id in places:
            message = f"{row.place}: id {prompt.id!r} is that of {places[prompt.id]} too; ids differ, or leave id_field out"
            raise DataError(message)
        places[prompt.id] = row.place
        prompts.append(prompt)
    if not prompts:
        message = f"{source}: there are no rows in it"
        raise DataError(message)
    return prompts


def row_to_prompt(row: Row, options: RowOptions) -> Prompt:
    """One row. Fields that are neither prompt nor answer become the prompt's metadata."""
    prompt_field = _prompt_field(row, options)
    answer_field = _chosen(row, options.answer_field, "answer_field", ANSWER_FIELDS)
    used = {prompt_field, answer_field}
    return make_prompt(
        id=row.place if options.id_field is None else str(_value(row, options.id_field, "id_field")),
        content=fill(options.template, row) if options.template is not None else row.fields[str(prompt_field)],
        place=f"{row.place}, field {prompt_field!r}" if options.template is None else row.place,
        format=options.format,
        system_prompt=options.system_prompt,
        answer=None if answer_field is None else _answer(row, answer_field, options.answer_regex),
        metadata={name: value for name, value in row.fields.items() if name not in used},
    )


def fill(template: str, row: Row) -> str:
    r"""The template with the row's fields in it. Braces around anything but a name stay as they are: `\boxed{}` is text."""

    def one(match: re.Match[str]) -> str:
        literal, name = match.groups()
        return "{" + literal + "}" if literal else _shown(_value(row, name, "template"))

    return _SLOT.sub(one, template)


def _shown(value: Any) -> str:
    """A field in a template. Options of a question, a list of texts or `{label: […], text: […]}`, are lines `A. …`."""
    labels: Sequence[Any] = string.ascii_uppercase
    if isinstance(value, Mapping) and {"label", "text"} <= set(value):
        labels, value = value["label"], value["text"]
    if isinstance(value, (list, tuple)) and len(value) <= len(labels):
        return "\n".join(f"{label}. {text}" for label, text in zip(labels, value, strict=False))
    return str(value)


def held_out(prompts: Sequence[Prompt], split: Split, fraction: float, *, source: str) -> list[Prompt]:
    """The part of one table that is `split`, by a hash of what is asked: no prompt is on both sides, whatever the order.

    Raises:
        DataError: that part is empty.
    """
    return held_out_by(prompts, split, fraction, asked=lambda prompt: prompt.text or prompt.messages or (), source=source)


def held_out_by(
    rows: Sequence[Item], split: Split, fraction: float, *, asked: Callable[[Item], str | Sequence[Message]], source: str
) -> list[Item]:
    """The same for rows of any kind; `asked` is what must not be on both sides."""
    chosen = [row for row in rows if (_place_of(asked(row)) < fraction) == (split == "eval")]
    if not chosen:
        message = f"{source}: eval_fraction {fraction:g} of {len(rows)} rows leaves none for the {split} split; change it"
        raise DataError(message)
    return chosen


def _place_of(asked: str | Sequence[Message]) -> float:
    """A number in [0, 1) that follows from what is asked, not from the row's id or answer."""
    text = asked if isinstance(asked, str) else json.dumps([dict(message) for message in asked])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") / 2**64


def _prompt_field(row: Row, options: RowOptions) -> str | None:
    if options.template is not None and options.prompt_field is None:
        return None
    field = _chosen(row, options.prompt_field, "prompt_field", PROMPT_FIELDS)
    if field is None:
        has = ", ".join(map(repr, row.fields)) or "no fields"
        message = f"{row.place}: no prompt: none of the fields {', '.join(PROMPT_FIELDS)}; set prompt_field, it has {has}"
        raise DataError(message)
    return field


def _chosen(row: Row, named: str | None, option: str, candidates: Sequence[str]) -> str | None:
    if named is not None:
        _value(row, named, option)
        return named
    return next((name for name in candidates if row.fields.get(name) is not None), None)


def _value(row: Row, name: str, option: str) -> Any:
    value = row.fields.get(name)
    if value is None:
        state = "is null" if name in row.fields else "is missing"
        hint = "" if name in row.fields else did_you_mean(name, row.fields)
        message = f"{row.place}: field {name!r} ({option}) {state}{hint}"
        raise DataError(message)
    return value


def _answer(row: Row, field: str, pattern: str | None) -> Any:
    value = row.fields[field]
    if pattern is None:
        return value
    matches = list(re.finditer(pattern, str(value)))
    if not matches:
        message = f"{row.place}, field {field!r}: answer_regex {pattern!r} matches nowhere in {str(value)[-80:]!r}"
        raise DataError(message)
    last = matches[-1]
    return (last.group(1) if last.re.groups else last.group()).strip()
