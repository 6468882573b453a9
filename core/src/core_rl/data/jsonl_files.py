"""Rows of JSON Lines files, plain or `.gz`, with the place of each. Torch-free."""

from __future__ import annotations

import glob
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from core_rl.data.rows import Row
from core_rl.errors import DataError


def find_files(named: Sequence[str], *, source: str) -> list[Path]:
    """The files in the order in which they are named, and of the names that a pattern matches. `source` begins an error.

    Raises:
        DataError: no such file, or a folder.
    """
    files: list[Path] = []
    for name in named:
        path = Path(name).expanduser()
        if path.is_file():
            found = [path]
        elif path.is_dir():
            message = f"{source}: {name} is a folder; name its files, for example {name.rstrip('/')}/*.jsonl"
            raise DataError(message)
        else:
            found = sorted(Path(match) for match in glob.glob(str(path), recursive=True))  # noqa: PTH207 — absolute patterns too
        if not found:
            message = f"{source}: no file {name} (looked from {Path.cwd().name}/)"
            raise DataError(message)
        files += [file for file in found if file not in files]
    return files


def read_jsonl(path: Path) -> Iterator[Row]:
    """The rows of one file.

    Raises:
        DataError: the file cannot be read, or a line is no JSON object.
    """
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
