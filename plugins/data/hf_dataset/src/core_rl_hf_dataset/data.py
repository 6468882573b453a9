"""Prompts from Hugging Face datasets."""

from __future__ import annotations

from collections.abc import Sequence

from core_rl.data.hf_tables import check_datasets, load_table
from core_rl.data.rows import Row, held_out, rows_to_prompts
from core_rl.data.sample import Prompt
from core_rl.errors import DataError
from core_rl.roles.parts import Split
from core_rl_hf_dataset.config import HfDatasetConfig


class HfDatasetData:
    """Rows in the data set's own order."""

    def __init__(self, config: HfDatasetConfig) -> None:
        check_datasets("hf_dataset")
        self._config = config

    def load(self, split: Split, seed: int) -> Sequence[Prompt]:  # noqa: ARG002 — the data set alone decides
        config = self._config
        name = config.split if split == "train" or config.eval_split is None else config.eval_split
        if split == "eval" and config.eval_split is None and config.eval_fraction is None:
            message = "hf_dataset: nothing is held out; set eval_split, or eval_fraction to hold out a part of split"
            raise DataError(message)
        source = f"hf_dataset: {config.path}, split {name}"
        table = load_table(config.path, name, source="hf_dataset", subset=config.subset, revision=config.revision)
        rows = (Row(f"{config.path}/{name}:{number}", fields) for number, fields in enumerate(table))
        prompts = rows_to_prompts(rows, config, source=source)
        if config.eval_fraction is not None:
            prompts = held_out(prompts, split, config.eval_fraction, source=source)
        return prompts[: config.limit]
