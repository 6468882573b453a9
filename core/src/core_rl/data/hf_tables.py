"""Tables that Hugging Face's `datasets` reads: files, saved folders, the hub. Torch-free; `datasets` is imported when a table is read."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from core_rl.errors import DataError, PluginError
from core_rl.suggest import did_you_mean, nearest

_READERS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".csv": "csv", ".arrow": "arrow"}
_SAVED = ("dataset_info.json", "dataset_dict.json")  # what save_to_disk leaves in a folder


def check_datasets(source: str) -> None:
    """Raises `PluginError` where `datasets` is not installed. `source` is the data component."""
    if importlib.util.find_spec("datasets") is None:
        message = f"data {source} needs datasets: pip install 'core-rl[hf_dataset]'"
        raise PluginError(message)


def load_table(name: str, split: str, *, source: str, subset: str | None = None, revision: str | None = None) -> Any:
    """The `datasets.Dataset` of a split of a file, a folder or a data set on the hub. `source` begins an error.

    Raises:
        DataError: there is no such data set, subset or split, or the hub cannot be reached; one line that says which.
    """
    import datasets

    path = Path(name).expanduser()
    bars = datasets.utils.logging.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    try:
        if path.is_dir() and any((path / saved).is_file() for saved in _SAVED):
            return _of_saved(datasets.load_from_disk(str(path)), split, f"{source}: {name}")
        if path.is_file():
            return datasets.load_dataset(_reader(path, source), data_files={"train": str(path)}, split=split)
        if path.is_dir():
            return datasets.load_dataset(str(path), subset, split=split, revision=revision)
        _check_hub_name(name, source)
        return datasets.load_dataset(name, subset, split=split, revision=revision)
    except DataError:
        raise
    except (OSError, ValueError, RuntimeError, LookupError) as error:  # datasets' own errors are all of these families
        message = f"{source}: {name}: {_why(error, subset, split)}"
        raise DataError(message) from error
    finally:
        if bars:
            datasets.enable_progress_bars()


def _check_hub_name(name: str, source: str) -> None:
    """The hub's names are `name` and `owner/name`; it is not asked for a file, which takes half a minute without a network."""
    path = Path(name).expanduser()
    if not name.startswith((".", "/", "~")) and name.count("/") < 2 and _suffix(path) not in _READERS:
        return
    if path.parent.is_dir():
        guess = nearest(path.name, [entry.name for entry in path.parent.iterdir()])
        hint = f"; did you mean `{guess}`?" if guess else ""
    else:
        hint = f", and no folder {path.parent}"
    message = f"{source}: there is no file or folder {path}{hint}"
    raise DataError(message)


def _reader(path: Path, source: str) -> str:
    reader = _READERS.get(_suffix(path))
    if reader is None:
        message = f"{source}: {path}: which kind of file is this? Known are {', '.join(_READERS)}"
        raise DataError(message)
    return reader


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix


def _of_saved(saved: Any, split: str, place: str) -> Any:
    """`save_to_disk` writes a mapping of splits, or one table: that is `train`, unless it knows its own name."""
    splits = saved if isinstance(saved, dict) else {"train": saved, str(saved.split or "train"): saved}
    if split not in splits:
        hint = "; a saved folder has whole splits, use limit for a part" if "[" in split else did_you_mean(split, splits)
        message = f"{place} has no split {split!r}{hint}"
        raise DataError(message)
    return splits[split]


def _why(error: Exception, subset: str | None, split: str) -> str:
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    kind = type(error).__name__
    if kind == "DatasetNotFoundError" or isinstance(error, ConnectionError) or "offline" in first.lower():
        return f"no such file or folder, and the hub does not give it (no network, offline mode, or no such data set): {first}"
    if "Unknown split" in first or "split" in first.lower():
        return f"split {split!r} cannot be read: {first}"
    if "BuilderConfig" in first or "Config name" in first:
        return f"subset {subset!r} cannot be read: {first}"
    return f"cannot be read: {kind}: {first}"
