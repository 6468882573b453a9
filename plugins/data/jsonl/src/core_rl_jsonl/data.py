"""Prompts from JSON Lines files."""

from __future__ import annotations

from collections.abc import Sequence

from core_rl.data.jsonl_files import find_files, read_jsonl
from core_rl.data.rows import held_out, rows_to_prompts
from core_rl.data.sample import Prompt
from core_rl.errors import DataError
from core_rl.roles.parts import Split
from core_rl_jsonl.config import JsonlConfig


class JsonlData:
    """Rows in the order of the files as they are named, and of the names that a pattern matches."""

    def __init__(self, config: JsonlConfig) -> None:
        self._config = config

    def load(self, split: Split, seed: int) -> Sequence[Prompt]:  # noqa: ARG002 — the files alone decide
        config = self._config
        if split == "train" or config.eval_path is None:
            source, fraction = config.path, config.eval_fraction
        else:
            source, fraction = config.eval_path, None
        if split == "eval" and config.eval_path is None and fraction is None:
            message = "jsonl: nothing is held out; set eval_path, or eval_fraction to hold out a part of path"
            raise DataError(message)
        named = (source,) if isinstance(source, str) else source
        what = f"jsonl: {', '.join(named)}"
        rows = (row for path in find_files(named, source="jsonl") for row in read_jsonl(path))
        prompts = rows_to_prompts(rows, config, source=what)
        if fraction is not None:
            prompts = held_out(prompts, split, fraction, source=what)
        return prompts[: config.limit]
