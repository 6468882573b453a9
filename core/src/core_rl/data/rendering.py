"""From messages to text by the tokenizer's chat template, in pieces: what is learnt, and what stands around it.

A template is a program, and does not say which part of its text is whose. So the conversation is rendered again up to each message that
is learnt: what the full text has beyond its predecessors and the generation prompt is that message, as the policy would write it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import attrs

from core_rl.errors import DataError

if TYPE_CHECKING:
    from core_rl.data.sample import Message
    from core_rl.hf.tokenizer import Tokenizer


@attrs.frozen
class Piece:
    """A part of the text. `bare`: the template ends a learnt message with nothing of its own, so that no token says that it is over."""

    text: str
    learnt: bool
    bare: bool = False


def pieces(messages: Sequence[Message], learnt: Collection[int], tokenizer: Tokenizer, place: str) -> list[Piece]:
    """The text of a conversation up to its last learnt message. `learnt` are indices of messages; `place` begins an error.

    A template that writes a message otherwise once others follow it (a past turn loses its thinking) has the learnt message end with
    the end-of-sequence token.

    Raises:
        DataError: the template refuses the conversation, or rewrites what stands before a learnt message.
    """
    full = render(messages, tokenizer, place)
    found: list[Piece] = []
    reached = 0
    for index in sorted(learnt):
        before = render(messages[:index], tokenizer, place, generation=True)
        start, end = len(before), _end(full, messages[: index + 1], len(before), tokenizer, place)
        if not full.startswith(before) or start < reached or end < start:
            message = (
                f"{place}: the chat template writes what stands before message {index + 1} otherwise when that message follows, so that "
                "nothing says where it begins; take another model.chat_template, or algorithm.encoding.train_on: all"
            )
            raise DataError(message)
        bare = ends_bare(full[start:end], messages[index], tokenizer)
        found += [Piece(full[reached:start], learnt=False), Piece(full[start:end], learnt=True, bare=bare)]
        reached = end
    return found


def _end(full: str, messages: Sequence[Message], start: int, tokenizer: Tokenizer, place: str) -> int:
    """Where in the full text the last of these messages ends; -1 where nothing says so."""
    until = render(messages, tokenizer, place)
    if full.startswith(until):
        return len(until)
    end_of_sequence = _end_of_sequence(tokenizer)
    found = full.find(end_of_sequence, start)
    return -1 if found < 0 else found + len(end_of_sequence)


def ends_bare(text: str, message: Message, tokenizer: Tokenizer) -> bool:
    """Whether a message's text ends with its content, but for white space."""
    text, content = text.rstrip(), (message.get("content") or "").rstrip()
    return text.endswith(content) and not text.endswith(_end_of_sequence(tokenizer))


def _end_of_sequence(tokenizer: Tokenizer) -> str:
    return tokenizer.decode([tokenizer.eos_token_id or 0])


def render(messages: Sequence[Message], tokenizer: Tokenizer, place: str, *, generation: bool = False) -> str:
    """The text of a conversation; with `generation` the beginning of the assistant's next message too."""
    if tokenizer.chat_template is None:
        message = (
            f"{place}: this row has messages and the tokenizer has no chat template; give model.chat_template, use an instruct model, "
            "or give the data as text (format: text)"
        )
        raise DataError(message)
    try:
        text: str = tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=generation)
    except Exception as error:  # a template raises what it likes
        message = f"{place}: the chat template refuses the messages: {error}"
        raise DataError(message) from error
    return text
