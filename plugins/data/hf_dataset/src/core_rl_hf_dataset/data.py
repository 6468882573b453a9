"""Prompts from Hugging Face datasets."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core_rl.data.rows import Row, held_out, rows_to_prompts
from core_rl.data.sample import Prompt
from core_rl.errors import DataError, PluginError
from core_rl.roles.parts import Split
from core_rl.suggest import did_you_mean
from core_rl_hf_dataset.config import HfDatasetConfig

_READERS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".csv": "csv", ".arrow": "arrow"}
_SAVED = ("dataset_info.json", "dataset_dict.json")  # what save_to_disk leaves in a folder


class HfDatasetData:
    """Rows in the data set's own order."""

    def __init__(self, config: HfDatasetConfig) -> None:
        if importlib.util.find_spec("datasets") is None:
            message = "data hf_dataset needs datasets: pip install 'core-rl[hf_dataset]'"
            raise PluginError(message)
        self._config = config

    def load(self, split: Split, seed: int) -> Sequence[Prompt]:  # noqa: ARG002 — the data set alone decides
        config = self._config
        name = config.split if split == "train" or config.eval_split is None else config.eval_split
        if split == "eval" and config.eval_split is None and config.eval_fraction is None:
            message = "hf_dataset: nothing is held out; set eval_split, or eval_fraction to hold out a part of split"
            raise DataError(message)
        source = f"hf_dataset: {config.path}, split {name}"
        table = load_table(config, name)
        rows = (Row(f"{config.path}/{name}:{number}", fields) for number, fields in enumerate(table))
        prompts = rows_to_prompts(rows, config, source=source)
        if config.eval_fraction is not None:
            prompts = held_out(prompts, split, config.eval_fraction, source=source)
        return prompts[: config.limit]


def load_table(config: HfDatasetConfig, split: str) -> Any:
    """The `datasets.Dataset` of a split.

    Raises:
        DataError: there is no such data set, subset or split, or the hub cannot be reached; one line that says which.
    """
    import datasets

    path = Path(config.path).expanduser()
    bars = datasets.utils.logging.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    try:
        if path.is_dir() and any((path / name).is_file() for name in _SAVED):
            return _of_saved(datasets.load_from_disk(str(path)), split, config.path)
        if path.is_file():
            return datasets.load_dataset(_reader(path), data_files={"train": str(path)}, split=split)
        return datasets.load_dataset(
            str(path) if path.is_dir() else config.path, config.subset, split=split, revision=config.revision
        )
    except DataError:
        raise
    except (OSError, ValueError, RuntimeError, LookupError) as error:  # datasets' own errors are all of these families
        message = f"hf_dataset: {config.path}: {_why(error, config, split)}"
        raise DataError(message) from error
    finally:
        if bars:
            datasets.enable_progress_bars()


def _reader(path: Path) -> str:
    suffixes = [suffix for suffix in path.suffixes if suffix != ".gz"]
    reader = _READERS.get(suffixes[-1] if suffixes else "")
    if reader is None:
        message = f"hf_dataset: {path}: which kind of file is this? Known are {', '.join(_READERS)}"
        raise DataError(message)
    return reader


def _of_saved(saved: Any, split: str, path: str) -> Any:
    """`save_to_disk` writes a mapping of splits, or one table: that is `train`, unless it knows its own name."""
    splits = saved if isinstance(saved, dict) else {"train": saved, str(saved.split or "train"): saved}
    if split not in splits:
        hint = "; a saved folder has whole splits, use limit for a part" if "[" in split else did_you_mean(split, splits)
        message = f"hf_dataset: {path} has no split {split!r}{hint}"
        raise DataError(message)
    return splits[split]


def _why(error: Exception, config: HfDatasetConfig, split: str) -> str:
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    kind = type(error).__name__
    if kind == "DatasetNotFoundError" or isinstance(error, ConnectionError) or "offline" in first.lower():
        return f"no such file or folder, and the hub does not give it (no network, offline mode, or no such data set): {first}"
    if "Unknown split" in first or "split" in first.lower():
        return f"split {split!r} cannot be read: {first}"
    if "BuilderConfig" in first or "Config name" in first:
        return f"subset {config.subset!r} cannot be read: {first}"
    return f"cannot be read: {kind}: {first}"
