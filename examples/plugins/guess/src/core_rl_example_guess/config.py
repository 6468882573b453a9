"""Options of the workflow and the reward. Torch-free."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class GuessConfig:
    """What the environment says, and for how long. See `core_rl_example_guess.workflow`.

    A chat model reads its template's marks in these texts: the end of its turn, the user's turn, the beginning of its next one.
    """

    turns: int = attrs.field(default=3, validator=attrs.validators.ge(1), metadata={"help": "guesses in a game"})
    higher: str = attrs.field(
        default="+", validator=attrs.validators.min_len(1), metadata={"help": "said after a guess that is too low"}
    )
    lower: str = attrs.field(
        default="-", validator=attrs.validators.min_len(1), metadata={"help": "said after a guess that is too high"}
    )
    invalid: str = attrs.field(
        default="!", validator=attrs.validators.min_len(1), metadata={"help": "said after a turn that is no whole number"}
    )


@attrs.frozen(kw_only=True)
class GuessRewardConfig:
    """What a game is worth."""

    slow: float = attrs.field(
        default=0.5,
        validator=[attrs.validators.ge(0.0), attrs.validators.le(1.0)],
        metadata={"help": "worth of a number found with the last guess; with the first it is 1, between them on a line"},
    )
