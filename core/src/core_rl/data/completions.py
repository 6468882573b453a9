"""Prompts and completions of offline rows: text or messages, in the shapes that data sets have them. Torch-free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core_rl.data.prompts import read_messages
from core_rl.data.records import Text
from core_rl.data.rows import Row
from core_rl.data.sample import Message
from core_rl.data.tables import TableOptions
from core_rl.errors import DataError
from core_rl.suggest import did_you_mean

PROMPT_FIELDS = ("prompt", "question", "instruction", "problem")

_SHAREGPT = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system", "tool": "tool"}


def find_field(row: Row, named: str | None, option: str, candidates: Sequence[str]) -> str | None:
    """The field that is named, or the first candidate that the row has; None where it has none.

    Raises:
        DataError: the named one is missing, or null.
    """
    if named is None:
        return next((name for name in candidates if row.fields.get(name) is not None), None)
    if row.fields.get(named) is None:
        state = "is null" if named in row.fields else f"is missing{did_you_mean(named, row.fields)}"
        message = f"{row.place}: field {named!r} ({option}) {state}"
        raise DataError(message)
    return named


def need_field(row: Row, named: str | None, option: str, candidates: Sequence[str]) -> str:
    """The same; without one it is an error."""
    field = find_field(row, named, option, candidates)
    if field is None:
        has = ", ".join(map(repr, row.fields)) or "no fields"
        message = f"{row.place}: none of the fields {', '.join(candidates)}; set {option}, it has {has}"
        raise DataError(message)
    return field


def read_text(row: Row, field: str) -> Text:
    """Text as it is; a list of messages, also as {from, value}, as messages."""
    value = row.fields[field]
    if isinstance(value, str):
        return value
    items = [_named(item) for item in value] if isinstance(value, Sequence) else value
    return read_messages(items, f"{row.place}, field {field!r}", what="this")


def in_format(
    prompt: Text | None, completions: Sequence[Text], options: TableOptions, place: str
) -> tuple[Text | None, list[Text]]:
    """Prompt and completions both as messages, or both as text.

    Text under `format: chat` becomes the user's and the assistant's message. Messages that begin with those of the prompt lose them.

    Raises:
        DataError: messages under `format: text`, or text beside messages.
    """
    if isinstance(prompt, str) and all(not isinstance(one, str) for one in completions):
        prompt = None  # of whole conversations: what they begin with says it
    texts = [isinstance(one, str) for one in completions]
    if all(texts) and isinstance(prompt, str | None):
        return _of_text(prompt, [str(one) for one in completions], options)
    if options.format == "text" or any(texts) or isinstance(prompt, str):
        what = "format text wants text, found messages" if options.format == "text" else "a row is all text or all messages"
        message = f"{place}: {what}"
        raise DataError(message)
    messages = [_after(prompt or (), tuple(one)) for one in completions]  # type: ignore[arg-type]
    if prompt is None:
        return None, [with_system(one, options.system_prompt) for one in messages]
    return with_system(prompt, options.system_prompt), list(messages)


def with_system(messages: tuple[Message, ...], system_prompt: str | None) -> tuple[Message, ...]:
    if system_prompt is None or (messages and messages[0]["role"] == "system"):
        return messages
    return ({"role": "system", "content": system_prompt}, *messages)


def _of_text(prompt: str | None, completions: list[str], options: TableOptions) -> tuple[Text | None, list[Text]]:
    if prompt is None:
        return None, list(completions)
    if options.format == "text":
        return prompt if options.system_prompt is None else f"{options.system_prompt}\n\n{prompt}", list(completions)
    asked = with_system(({"role": "user", "content": prompt},), options.system_prompt)
    return asked, [({"role": "assistant", "content": one},) for one in completions]


def _after(prompt: Sequence[Message], messages: tuple[Message, ...]) -> tuple[Message, ...]:
    begins = [dict(one) for one in messages[: len(prompt)]] == [dict(one) for one in prompt]
    return messages[len(prompt) :] if prompt and begins else messages


def _named(item: Any) -> Any:
    """ShareGPT's {from, value} as {role, content}."""
    if isinstance(item, Mapping) and {"from", "value"} <= set(item):
        return {"role": _SHAREGPT.get(item["from"], item["from"]), "content": item["value"]}
    return item
