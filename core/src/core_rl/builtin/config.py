"""Options of the core's own components. Torch-free."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class ConsoleConfig:
    """What the console shows."""

    metrics: tuple[str, ...] = attrs.field(
        default=(
            "reward/mean",
            "eval/reward/mean",
            "loss",
            "optim/grad_norm",
            "entropy/mean",
            "len/completion_mean",
            "perf/tok_s",
        ),
        metadata={"help": "metrics to show, in this order; the first one has a trend; one that a step lacks is left out"},
    )
    samples: int = attrs.field(
        default=4, validator=attrs.validators.ge(0), metadata={"help": "rows of a table of completions; 0 shows none"}
    )
    width: int | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.ge(40)),
        metadata={"help": "columns to use; null takes the terminal's"},
    )


@attrs.frozen(kw_only=True)
class JsonlConfig:
    """How the files are written."""

    fsync: bool = attrs.field(
        default=False,
        metadata={
            "help": "force every row to the disk, so that it survives a power cut; a killed process loses none either way"
        },
    )


@attrs.frozen(kw_only=True)
class SingleTurnConfig:
    """How a prompt is put to the model."""

    system_prompt: str | None = attrs.field(
        default=None, metadata={"help": "a system message before the prompt's messages, where they have none"}
    )
    add_special_tokens: bool = attrs.field(
        default=True, metadata={"help": "let the tokenizer add its begin-of-sequence token to a prompt that is text"}
    )
