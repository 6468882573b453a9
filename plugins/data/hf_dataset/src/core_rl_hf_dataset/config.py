"""Options of the data source `hf_dataset`."""

from __future__ import annotations

from typing import Any

import attrs

from core_rl.data.rows import RowOptions, check_fraction


def _check_eval(config: HfDatasetConfig, _: attrs.Attribute[Any], value: float | None) -> None:
    check_fraction(config, _, value)
    if value is not None and config.eval_split is not None:
        message = "eval_split and eval_fraction both say what is held out; leave one of them out"
        raise ValueError(message)


@attrs.frozen(kw_only=True)
class HfDatasetConfig(RowOptions):
    """Which data set. How a row becomes a prompt is said by `RowOptions`."""

    path: str = attrs.field(
        metadata={"help": "a hub name; or a folder (also of save_to_disk), a .parquet, .json, .jsonl, .csv or .arrow file"}
    )
    subset: str | None = attrs.field(
        default=None, metadata={"help": "the data set's configuration, such as main of openai/gsm8k"}
    )
    split: str = attrs.field(default="train", metadata={"help": "the split to train on; train[:1000] and train+test work too"})
    eval_split: str | None = attrs.field(default=None, metadata={"help": "the held-out split, such as test"})
    eval_fraction: float | None = attrs.field(
        default=None,
        validator=_check_eval,
        metadata={"help": "without eval_split: hold out this part of split, by a hash of the prompt"},
    )
    revision: str | None = attrs.field(default=None, metadata={"help": "a branch, tag or commit on the hub"})
