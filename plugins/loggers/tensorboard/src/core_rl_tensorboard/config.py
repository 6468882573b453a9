"""Options of the logger `tensorboard`."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class TensorBoardConfig:
    """Where event files go, and how much goes into them."""

    dir: str | None = attrs.field(
        default=None, metadata={"help": "the folder of the event files; null: tensorboard/ in the run's own"}
    )
    samples: int = attrs.field(
        default=16, validator=attrs.validators.ge(0), metadata={"help": "completions of a table that are written; 0 none"}
    )
    flush_s: float = attrs.field(
        default=10.0, validator=attrs.validators.gt(0.0), metadata={"help": "seconds until what was logged is in the file"}
    )
