"""From rows of an offline data set to token sequences with a mask of what is learnt. Ids are joined, never decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from core_rl.data.records import Conversation, Labelled, Pair, Text
from core_rl.errors import DataError

if TYPE_CHECKING:
    from core_rl.config.encoding import EncodingConfig
    from core_rl.data.sample import Message
    from core_rl.hf.tokenizer import Tokenizer


@attrs.frozen(kw_only=True)
class Encoded:
    """One sequence. `learnt` has one entry for each token; the first one is never learnt."""

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
            prompt, sides = split_prompt(row)
            found = [self._completion(prompt, side, row.id) for side in sides]
        elif isinstance(row, Labelled):
            found = [self._completion(row.prompt, row.completion, row.id)]
        else:
            found = [self._conversation(row)]
        bounded = [self._bounded(one, row.id) for one in found]
        return None if any(one is None for one in bounded) else [one for one in bounded if one is not None]

    def _conversation(self, row: Conversation) -> Encoded:
        if row.messages is None:
            return self._text(row.prompt, row.text or "", row.id)
        tokens, spans = self._spans(row.messages, row.id)
        everything = self.options.train_on == "all"
        learnt = [everything] * len(tokens)
        if not everything:
            for start, end in spans[-1:] if self.options.train_on == "last" else spans:
                learnt[start:end] = [True] * (end - start)
        return self._ended(tokens, learnt, last_learnt=everything or bool(spans and spans[-1][1] == len(tokens)))

    def _completion(self, prompt: Text, completion: Text, name: str) -> Encoded:
        if isinstance(prompt, str) and isinstance(completion, str):
            return self._text(prompt, completion, name)
        if isinstance(prompt, str) or isinstance(completion, str):
            message = f"{name}: the prompt and its completion are both text or both messages, found one of each"
            raise DataError(message)
        before = self._render(prompt, name, asks=True)
        tokens = self._render((*prompt, *completion), name, asks=False)
        _check_prefix(before, tokens, name)
        return self._ended(tokens, _after(len(before), len(tokens)), last_learnt=True)

    def _text(self, prompt: str | None, text: str, name: str) -> Encoded:
        before = [] if prompt is None else self.tokenizer.encode(prompt)
        tokens = [*before, *self.tokenizer.encode(text, add_special_tokens=prompt is None)]
        if not tokens:
            message = f"{name}: there is no token in it"
            raise DataError(message)
        start = 0 if self.options.train_on == "all" else len(before)
        return self._ended(tokens, _after(start, len(tokens)), last_learnt=True)

    def _spans(self, messages: Sequence[Message], name: str) -> tuple[list[int], list[tuple[int, int]]]:
        """The tokens of a conversation, and where each message of the assistant stands in them, up to its end-of-sequence token."""
        tokens = self._render(messages, name, asks=False)
        spans: list[tuple[int, int]] = []
        for index, message in enumerate(messages):
            if message["role"] != "assistant" or (self.options.train_on == "last" and index != len(messages) - 1):
                continue
            before = self._render(messages[:index], name, asks=True) if index else []
            through = self._render(messages[: index + 1], name, asks=False)
            _check_prefix(before, tokens, name)
            _check_prefix(through, tokens, name)
            spans.append((len(before), _last_of(self.eos, through, len(before))))
        return tokens, spans

    def _ended(self, tokens: Sequence[int], learnt: Sequence[bool], *, last_learnt: bool) -> Encoded:
        """With an end-of-sequence token; what a template writes after the last one of a completion (a line break) is left out."""
        tokens, learnt = list(tokens), list(learnt)
        if last_learnt and self.eos in tokens:
            cut = _last_of(self.eos, tokens, 0)
            rest = tokens[cut:]
            if len(rest) < 3 and not self.tokenizer.decode(rest).strip():
                tokens, learnt = tokens[:cut], learnt[:cut]
        if self.options.end and last_learnt and tokens[-1] != self.eos:
            tokens, learnt = [*tokens, self.eos], [*learnt, True]
        if self.scored:
            tokens, learnt = [*tokens, self.eos], [*[False] * len(tokens), True]
        return Encoded(tokens=tokens, learnt=[False, *learnt[1:]])

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

    def _render(self, messages: Sequence[Message], name: str, *, asks: bool) -> list[int]:
        if self.tokenizer.chat_template is None:
            message = f"{name}: messages need a chat template, and the tokenizer has none: give model.chat_template, or texts"
            raise DataError(message)
        try:
            made: Any = self.tokenizer.apply_chat_template(list(messages), tokenize=True, add_generation_prompt=asks)
        except Exception as error:  # a template is a program, and raises what it likes
            message = f"{name}: the chat template refuses it: {error}"
            raise DataError(message) from error
        return list(made if isinstance(made, list) else made["input_ids"])


def split_prompt(row: Pair) -> tuple[Text, tuple[Text, Text]]:
    """The prompt of a pair and its two completions; of whole conversations, the messages that both begin with are the prompt."""
    if row.prompt is not None:
        return row.prompt, (row.chosen, row.rejected)
    if isinstance(row.chosen, str) or isinstance(row.rejected, str):
        message = f"{row.id}: a pair of texts needs a prompt; without one, chosen and rejected are lists of messages"
        raise DataError(message)
    shared = 0
    for left, right in zip(row.chosen, row.rejected, strict=False):
        if dict(left) != dict(right):
            break
        shared += 1
    prompt, chosen, rejected = row.chosen[:shared], row.chosen[shared:], row.rejected[shared:]
    if not prompt or not chosen or not rejected:
        what = "begin with different messages" if not prompt else "do not differ at their end"
        message = f"{row.id}: chosen and rejected {what}: give the prompt as a field of its own"
        raise DataError(message)
    return prompt, (chosen, rejected)


def _after(start: int, count: int) -> list[bool]:
    return [index >= start for index in range(count)]


def _last_of(token: int, tokens: Sequence[int], start: int) -> int:
    """The end of what stands before, and at, the last `token` from `start` on; all of it where there is none."""
    return next((at + 1 for at in range(len(tokens) - 1, start - 1, -1) if tokens[at] == token), len(tokens))


def _check_prefix(part: Sequence[int], whole: Sequence[int], name: str) -> None:
    if list(whole[: len(part)]) != list(part):
        message = (
            f"{name}: the chat template writes the beginning of this conversation otherwise once more messages follow, so that the "
            "assistant's tokens cannot be told apart: take algorithm.encoding.train_on: last (or all), or another model.chat_template"
        )
        raise DataError(message)
