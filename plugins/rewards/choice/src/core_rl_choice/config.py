"""Options of the reward `choice`."""

from __future__ import annotations

import re
from typing import Any

import attrs

from core_rl.data.rows import check_regex


def _check_pattern(config: ChoiceConfig, attribute: attrs.Attribute[Any], value: str | None) -> None:
    check_regex(config, attribute, value)
    if value is not None and re.compile(value).groups != 1:
        message = f"the pattern has one group, around the letter; found {re.compile(value).groups} in {value!r}"
        raise ValueError(message)


@attrs.frozen(kw_only=True)
class ChoiceConfig:
    """Which options there are, where the choice stands, and what it is worth."""

    choices_field: str = attrs.field(
        default="choices",
        metadata={
            "help": "the metadata field with the options, a list of texts or {label: […], text: […]}; rows without it have letters only"
        },
    )
    answer_field: str | None = attrs.field(
        default=None, metadata={"help": "the metadata field with the right option; null: the prompt's answer"}
    )
    first_index: int = attrs.field(
        default=0,
        validator=attrs.validators.in_((0, 1)),
        metadata={"help": "what an answer that is a number counts from: 0 or 1"},
    )
    pattern: str | None = attrs.field(
        default=None,
        validator=_check_pattern,
        metadata={
            "help": "a regular expression with one group around the letter, in place of the built-in search; the last match counts"
        },
    )
    strict: bool = attrs.field(
        default=False,
        metadata={
            "help": "only a box, a tag, `answer is X` or a reply that is the letter; false: also `X.` first, a lone letter, the text"
        },
    )
    correct: float = attrs.field(default=1.0, metadata={"help": "value of the right choice"})
    incorrect: float = attrs.field(default=0.0, metadata={"help": "value of a wrong choice"})
    no_answer: float | None = attrs.field(
        default=None, metadata={"help": "value when nothing is chosen; null: as a wrong choice"}
    )
