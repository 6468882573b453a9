"""How rows of an offline data set become tokens, and which of them are learnt. Torch-free."""

from __future__ import annotations

from typing import Literal

import attrs


@attrs.frozen(kw_only=True)
class EncodingConfig:
    """From text and messages to token ids and a mask."""

    train_on: Literal["assistant", "last", "all"] = attrs.field(
        default="assistant",
        metadata={
            "help": "of a conversation: every message of the assistant, its last one alone, or all tokens; a text with a prompt is "
            "learnt without it, unless this is all"
        },
    )
    max_length: int | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.ge(2)),
        metadata={"help": "tokens of a sequence; null takes model.max_length, or no bound"},
    )
    too_long: Literal["drop", "truncate", "stop"] = attrs.field(
        default="drop", metadata={"help": "what becomes of a row beyond max_length: left out, cut at its end, or an error"}
    )
    end: bool = attrs.field(
        default=True,
        metadata={"help": "a completion without an end-of-sequence token gets one, so that the model learns to stop"},
    )
