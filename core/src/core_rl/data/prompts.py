"""A prompt from text or from a list of messages, whatever it comes from, and what is wrong with one. Torch-free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from core_rl.data.sample import Message, Prompt
from core_rl.errors import DataError

ROLES = ("system", "user", "assistant", "tool", "developer")


def make_prompt(
    *,
    id: str,  # noqa: A002 — the name of the record's field
    content: Any,
    place: str,
    format: Literal["chat", "text"],  # noqa: A002 — the name of the option
    system_prompt: str | None,
    answer: Any,
    metadata: Mapping[str, Any],
) -> Prompt:
    """A prompt of text or messages. `place` begins the error when `content` is neither."""
    if isinstance(content, str):
        if not content.strip():
            message = f"{place}: the prompt is empty"
            raise DataError(message)
        if format == "text":
            text = content if system_prompt is None else f"{system_prompt}\n\n{content}"
            return Prompt(id=id, text=text, answer=answer, metadata=metadata)
        messages: tuple[Message, ...] = ({"role": "user", "content": content},)
    else:
        messages = _messages(content, place)
        if format == "text":
            message = f"{place}: format text wants text, found a list of messages; use format: chat"
            raise DataError(message)
    if system_prompt is not None and messages[0]["role"] != "system":
        messages = ({"role": "system", "content": system_prompt}, *messages)
    return Prompt(id=id, messages=messages, answer=answer, metadata=metadata)


def read_messages(content: Any, place: str, *, what: str) -> tuple[Message, ...]:
    """Messages of any roles. `what` they are of begins the error after `place`.

    Raises:
        DataError: it is no list, an empty one, or an item is no message.
    """
    if not isinstance(content, Sequence) or isinstance(content, str | bytes) or not content:
        message = f"{place}: {what} is text or a list of messages {{role, content}}, found {_kind(content)}"
        raise DataError(message)
    return tuple(_message(item, f"{place}, message {number}") for number, item in enumerate(content, start=1))


def _messages(content: Any, place: str) -> tuple[Message, ...]:
    messages = read_messages(content, place, what="a prompt")
    if messages[-1]["role"] == "assistant":
        message = (
            f"{place}: the last message is the assistant's, so nothing is asked; a prompt ends with the user's or a tool's"
        )
        raise DataError(message)
    return messages


def _message(item: Any, place: str) -> Message:
    present = {str(key): value for key, value in item.items() if value is not None} if isinstance(item, Mapping) else {}
    if not {"role", "content"} <= set(present) or not all(isinstance(value, str) for value in present.values()):
        found = ", ".join(f"{key}: {_kind(value)}" for key, value in present.items()) or _kind(item)
        message = f"{place}: a message is {{role: text, content: text}}, found {{{found}}}"
        raise DataError(message)
    if present["role"] not in ROLES:
        message = f"{place}: unknown role {present['role']!r}; one of {', '.join(ROLES)}"
        raise DataError(message)
    return present


def _kind(value: Any) -> str:
    return "nothing" if value is None or value in ("", [], {}) else type(value).__name__
