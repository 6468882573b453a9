"""Prompts from JSON Lines files."""

from __future__ import annotations

import glob
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from core_rl.data.rows import Row, held_out, rows_to_prompts
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
        prompts = rows_to_prompts((row for path in _files(named) for row in _rows(path)), config, source=what)
        if fraction is not None:
            prompts = held_out(prompts, split, fraction, source=what)
        return prompts[: config.limit]


def _files(named: Sequence[str]) -> list[Path]:
    files: list[Path] = []
    for name in named:
        path = Path(name).expanduser()
        if path.is_file():
            found = [path]
        elif path.is_dir():
            message = f"jsonl: {name} is a folder; name its files, for example {name.rstrip('/')}/*.jsonl"
            raise DataError(message)
        else:
            found = sorted(Path(match) for match in glob.glob(str(path), recursive=True))  # noqa: PTH207 — absolute patterns too
        if not found:
            message = f"jsonl: no file {name} (looked from {Path.cwd().name}/)"
            raise DataError(message)
        files += [file for file in found if file not in files]
    return files


def _rows(path: Path) -> Iterator[Row]:
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _row(line, f"{path}:{number}")
    except UnicodeDecodeError as error:
        message = f"{path}: this is not UTF-8 text ({error.reason} at byte {error.start}); is it another kind of file?"
        raise DataError(message) from error
    except (OSError, EOFError) as error:
        message = f"{path}: cannot be read: {error}"
        raise DataError(message) from error


def _row(line: str, place: str) -> Row:
    try:
        fields = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        detail = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else "nested too deeply"
        hint = "; this looks like one JSON list, write one object a line" if line.lstrip().startswith("[") else ""
        message = f"{place}: no JSON: {detail}: {line.strip()[:60]!r}{hint}"
        raise DataError(message) from error
    if not isinstance(fields, dict):
        message = f"{place}: a row is a JSON object {{…}}, found {type(fields).__name__}"
        raise DataError(message)
    return Row(place, fields)
