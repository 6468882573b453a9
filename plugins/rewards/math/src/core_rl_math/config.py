"""Options of the reward `math`."""

from __future__ import annotations

from typing import Literal

import attrs


@attrs.frozen(kw_only=True)
class MathConfig:
    """Where the answer stands, what it is compared to, and what it is worth."""

    extract: Literal["anywhere", "boxed", "tag", "last_number", "last_line"] = attrs.field(
        default="anywhere",
        metadata={"help": "where the answer stands; anywhere: the last \\boxed{…}, else what math-verify finds near the end"},
    )
    tag: str = attrs.field(default="answer", metadata={"help": "with extract tag: the name of the tag, without brackets"})
    answer_field: str | None = attrs.field(
        default=None, metadata={"help": "the metadata field with the reference answer; null: the prompt's answer"}
    )
    correct: float = attrs.field(default=1.0, metadata={"help": "value of a right answer"})
    incorrect: float = attrs.field(default=0.0, metadata={"help": "value of a wrong answer"})
    no_answer: float | None = attrs.field(
        default=None, metadata={"help": "value when there is no answer where it should be; null: as a wrong one"}
    )
    tolerance: float = attrs.field(
        default=1e-6,
        validator=[attrs.validators.ge(0.0), attrs.validators.lt(1.0)],
        metadata={
            "help": "numbers are equal within this fraction of the reference; two whole numbers only when they are the same"
        },
    )
    strict: bool = attrs.field(
        default=True, metadata={"help": "names of variables matter and a set is no tuple; false: x+1 is y+1"}
    )
    timeout_s: float = attrs.field(
        default=2.0,
        validator=[attrs.validators.gt(0.0), attrs.validators.le(60.0)],
        metadata={"help": "an answer that cannot be compared in so many seconds is wrong"},
    )
