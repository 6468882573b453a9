"""From rows of an offline data set to token sequences with a mask of what is learnt.

Where a prompt ends is known before it is a token: what is learnt and what stands around it are encoded on their own and their ids joined,
which is what a policy reads and writes. Ids are never decoded to find it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from core_rl.data.records import Conversation, Labelled, Pair
from core_rl.data.rendering import Piece, ends_bare, pieces, render
from core_rl.errors import DataError

if TYPE_CHECKING:
    from core_rl.config.encoding import EncodingConfig
    from core_rl.data.records import Text
    from core_rl.data.sample import Message
    from core_rl.hf.tokenizer import Tokenizer


@attrs.frozen(kw_only=True)
class Encoded:
    """One sequence. `learnt` has one entry for each token; the first one is never learnt, the last one always."""

    tokens: Sequence[int]
    learnt: Sequence[bool]


class Encoder:
    """Sequences of a row: one of a conversation or a labelled completion, two of a pair (chosen, rejected).

    `scored`: for reward models. Each sequence gets one token more (the end-of-sequence token once again) and it alone is in the mask: its
    value speaks of the state before it, which is the whole sequence.
    """

    def __init__(self, tokenizer: Tokenizer, options: EncodingConfig, *, max_length: int | None, scored: bool = False) -> None:
        assert tokenizer.eos_token_id is not None
        self.tokenizer = tokenizer
        self.options = options
        self.max_length = options.max_length or max_length
        self.scored = scored
        self.eos = tokenizer.eos_token_id

    def __call__(self, row: Conversation | Pair | Labelled) -> list[Encoded] | None:
        """None for a row that is left out because it is too long.

        Raises:
            DataError: the row cannot be put into tokens; or it is too long, and `too_long` is stop.
        """
        if isinstance(row, Pair):
            found = self._pair(row)
        elif isinstance(row, Labelled):
            found = [self._side(row.prompt, row.completion, "assistant", row.id)]
        else:
            found = [self._side(row.prompt, row.completion, self.options.train_on, row.id)]
        bounded = [self._bounded(self._end_scored(one), row.id) for one in found]
        return None if any(one is None for one in bounded) else [one for one in bounded if one is not None]

    def _pair(self, row: Pair) -> list[Encoded]:
        prompt, sides = split_prompt(row)
        found = [self._side(prompt, side, "assistant", row.id) for side in sides]
        if prompt is not None:
            return found
        first, second = (one.tokens for one in found)  # of two whole texts, the tokens that both begin with are the prompt
        shared = _common(first, second, most=min(len(first), len(second)) - 1)
        return [Encoded(tokens=one.tokens, learnt=_after(max(1, shared), len(one.tokens))) for one in found]

    def _side(self, prompt: Text | None, completion: Text, train_on: str, name: str) -> Encoded:
        if isinstance(completion, str) and isinstance(prompt, str | None):
            return self._text(prompt, completion, train_on, name)
        if isinstance(prompt, str) or isinstance(completion, str):
            message = f"{name}: the prompt and its completion are both text or both messages, found one of each"
            raise DataError(message)
        return self._messages(prompt or (), completion, train_on, name)

    def _text(self, prompt: str | None, completion: str, train_on: str, name: str) -> Encoded:
        before = [] if prompt is None else self.tokenizer.encode(prompt)
        tokens = [*before, *self.tokenizer.encode(completion, add_special_tokens=prompt is None)]
        if self.options.end and (not tokens[len(before) :] or tokens[-1] != self.eos):
            tokens.append(self.eos)
        start = 0 if train_on == "all" else len(before)
        return self._checked(tokens, _after(max(1, start), len(tokens)), name)

    def _messages(self, prompt: tuple[Message, ...], after: tuple[Message, ...], train_on: str, name: str) -> Encoded:
        messages = (*prompt, *after)
        if train_on == "all":
            full = render(messages, self.tokenizer, name)
            learnt = [Piece(full, learnt=True, bare=ends_bare(full, messages[-1], self.tokenizer))]
            return self._joined(learnt, ended=messages[-1]["role"] == "assistant", name=name)
        said = [index for index in range(len(prompt), len(messages)) if messages[index]["role"] == "assistant"]
        if not said:
            message = f"{name}: no message after the prompt is the assistant's, so that nothing of it is learnt"
            raise DataError(message)
        chosen = said if train_on == "assistant" else said[-1:]
        return self._joined(pieces(messages, chosen, self.tokenizer, name), ended=chosen[-1] == len(messages) - 1, name=name)

    def _joined(self, parts: Sequence[Piece], *, ended: bool, name: str) -> Encoded:
        """The ids of every piece, one after the other. A learnt piece ends with its last end-of-sequence token, if it has one."""
        tokens: list[int] = []
        learnt: list[bool] = []
        for part in parts:
            ids = self.tokenizer.encode(part.text, add_special_tokens=False) if part.text else []
            over = max((place for place, token in enumerate(ids) if token == self.eos), default=len(ids) - 1)
            tokens += ids
            learnt += [part.learnt and place <= over for place in range(len(ids))]
        if self.options.end and ended and parts[-1].bare:
            tokens, learnt = [*tokens, self.eos], [*learnt, True]
        return self._checked(tokens, [False, *learnt[1:]], name)

    def _checked(self, tokens: Sequence[int], learnt: Sequence[bool], name: str) -> Encoded:
        """Without what stands behind the last learnt token (a template's line break): nothing reads it."""
        if not any(learnt):
            message = f"{name}: there is no token in it to learn; a sequence has at least two, and the first is never learnt"
            raise DataError(message)
        end = len(learnt) - list(learnt)[::-1].index(True)
        return Encoded(tokens=tokens[:end], learnt=learnt[:end])

    def _end_scored(self, one: Encoded) -> Encoded:
        if not self.scored:
            return one
        return Encoded(tokens=[*one.tokens, self.eos], learnt=[*[False] * len(one.tokens), True])

    def _bounded(self, one: Encoded, name: str) -> Encoded | None:
        limit, options = self.max_length, self.options
        if limit is None or len(one.tokens) <= limit:
            return one
        if options.too_long == "stop":
            message = f"{name}: {len(one.tokens)} tokens, and the bound is {limit} (algorithm.encoding.max_length)"
            raise DataError(message)
        if options.too_long == "drop":
            return None
        if self.scored:  # the token that is scored stays the last one
            return Encoded(tokens=[*one.tokens[: limit - 1], self.eos], learnt=[*[False] * (limit - 1), True])
        cut = Encoded(tokens=one.tokens[:limit], learnt=one.learnt[:limit])
        return cut if any(cut.learnt) else None


def split_prompt(row: Pair) -> tuple[Text | None, tuple[Text, Text]]:
    """The prompt of a pair and its two completions; of whole conversations, the messages that both begin with are the prompt."""
    if row.prompt is not None or isinstance(row.chosen, str) or isinstance(row.rejected, str):
        return row.prompt, (row.chosen, row.rejected)
    shared = _common([dict(one) for one in row.chosen], [dict(one) for one in row.rejected])
    prompt, chosen, rejected = row.chosen[:shared], row.chosen[shared:], row.rejected[shared:]
    if not prompt or not chosen or not rejected:
        what = "begin with different messages" if not prompt else "do not differ at their end"
        message = f"{row.id}: chosen and rejected {what}: give the prompt as a field of its own"
        raise DataError(message)
    return prompt, (chosen, rejected)


def _common(first: Sequence[Any], second: Sequence[Any], *, most: int | None = None) -> int:
    """How many items both begin with, at most `most`."""
    shared = 0
    for left, right in zip(first[:most], second[:most], strict=False):
        if left != right:
            break
        shared += 1
    return shared


def _after(start: int, count: int) -> list[bool]:
    return [index >= start for index in range(count)]
