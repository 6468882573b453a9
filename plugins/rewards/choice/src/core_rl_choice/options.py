"""The options of a question, and which of them the reference means."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from core_rl.data.sample import Prompt
from core_rl.errors import DataError
from core_rl_choice.config import ChoiceConfig

_DRESSING = re.compile(r"[\s\W_]+")
_ARTICLES = re.compile(r"^(?:the|an|a) ")


@attrs.frozen
class Options:
    """Labels in order, and their texts if the data has them."""

    labels: tuple[str, ...]
    texts: tuple[str, ...] = ()

    def label_of(self, word: str) -> str | None:
        """The label that a word such as `b`, `(B)` or `B.` is."""
        bare = word.strip().strip("()[]{}.:,*\"'` ").upper()
        return bare if bare in self.labels else None

    def label_of_text(self, text: str) -> str | None:
        """The label of the option that reads like this; None also when two of them do."""
        wanted = normalise(text)
        found = [label for label, known in zip(self.labels, self.texts, strict=False) if wanted and normalise(known) == wanted]
        return found[0] if len(found) == 1 else None


def normalise(text: str) -> str:
    """Lower case, no punctuation, no article in front."""
    return _ARTICLES.sub("", _DRESSING.sub(" ", text).strip().casefold())


def options_of(prompt: Prompt, config: ChoiceConfig) -> Options:
    """What the prompt's metadata offers; the whole alphabet when it says nothing."""
    choices = prompt.metadata.get(config.choices_field)
    if choices is None:
        return Options(tuple(string.ascii_uppercase))
    labels: Any = None
    if isinstance(choices, Mapping):
        labels, choices = choices.get("label"), choices.get("text")
    if not isinstance(choices, Sequence) or isinstance(choices, str) or not 0 < len(choices) <= len(string.ascii_uppercase):
        message = f"reward choice: prompt {prompt.id}: metadata field {config.choices_field!r} is no list of 1 to 26 options"
        raise DataError(message)
    names = string.ascii_uppercase[: len(choices)] if labels is None else [str(label).upper() for label in labels]
    return Options(tuple(names), tuple(str(choice) for choice in choices))


def right_label(prompt: Prompt, options: Options, config: ChoiceConfig) -> str:
    """The label of the right option: the reference is a label, an index or the option's text.

    Raises:
        DataError: it is none of them.
    """
    answer: Any = prompt.answer if config.answer_field is None else prompt.metadata.get(config.answer_field)
    label = None
    if isinstance(answer, str):
        label = options.label_of(answer) or options.label_of_text(answer)
    if label is None and _is_index(answer):
        index = int(answer) - config.first_index
        label = options.labels[index] if 0 <= index < len(options.labels) else None
    if label is None:
        offered = ", ".join(options.labels if options.texts else ("A to Z",))
        message = f"reward choice: prompt {prompt.id}: the answer {answer!r} is none of {offered}, no index from {config.first_index}, and no option's text"
        raise DataError(message)
    return label


def _is_index(answer: Any) -> bool:
    if isinstance(answer, str):
        return answer.strip().isdecimal() and len(answer.strip()) <= 2
    return isinstance(answer, int) and not isinstance(answer, bool)
