"""Options of the reward `format`."""

from __future__ import annotations

from typing import Literal

import attrs

from core_rl.data.rows import check_regex

FormatName = Literal["think_answer", "boxed", "json", "ends_with_eos", "no_repetition"]


@attrs.frozen(kw_only=True)
class FormatConfig:
    """What is checked, and what it is worth. At least one of `formats` and `pattern`; without either, `think_answer`."""

    formats: tuple[FormatName, ...] = attrs.field(
        default=(),
        metadata={
            "help": "think_answer: <think>…</think><answer>…</answer>; boxed: a closed \\boxed{…}; json: nothing but JSON, a ```json "
            "fence allowed; ends_with_eos: the model ended it itself; no_repetition: no six words three times"
        },
    )
    pattern: str | None = attrs.field(
        default=None,
        validator=check_regex,
        metadata={"help": "a regular expression that the completion matches; (?s) in front lets . match line ends"},
    )
    match: Literal["full", "search"] = attrs.field(
        default="full", metadata={"help": "full: the pattern matches the whole completion; search: a part of it is enough"}
    )
    partial: bool = attrs.field(
        default=False, metadata={"help": "credit for the share of the checks that hold, instead of all or nothing"}
    )
    correct: float = attrs.field(default=1.0, metadata={"help": "value when every check holds"})
    incorrect: float = attrs.field(default=0.0, metadata={"help": "value when not; with partial, when none does"})
