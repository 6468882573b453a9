"""`checkpoint.json`: what makes a folder a complete checkpoint. It is written last and names every other file."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from core_rl.run.files import sync_folder

SEAL = "checkpoint.json"
_FORMAT = 1
_BLOCK = 1 << 22


def write_seal(folder: Path, step: int, state: Mapping[str, Any]) -> None:
    """Force every file of the folder to the disk, then write the seal, and force that too."""
    names = [str(path.relative_to(folder).as_posix()) for path in _files(folder)]
    assert SEAL not in names, f"the engine wrote a file named {SEAL}, which is the checkpoint's own"
    files = {}
    for name in names:
        with (folder / name).open("rb") as file:
            os.fsync(file.fileno())
        files[name] = {"size": (folder / name).stat().st_size, "crc32": _checksum(folder / name)}
    body = {"format": _FORMAT, "step": step, "state": dict(state), "files": files}
    with (folder / SEAL).open("w", encoding="utf-8") as file:
        json.dump({**body, "crc32": _body_checksum(body)}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    for path in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        sync_folder(path)


def read_seal(folder: Path) -> dict[str, Any] | str:
    """The loop's state when the folder is whole; what is wrong with it otherwise."""
    try:
        body = json.loads((folder / SEAL).read_text(encoding="utf-8"))
        stated, version = body.pop("crc32"), body["format"]
    except FileNotFoundError:
        return f"{SEAL} is missing"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{SEAL} cannot be read ({type(error).__name__})"
    if version != _FORMAT:
        return f"{SEAL} has format {version}, this core-rl reads {_FORMAT}"
    if stated != _body_checksum(body):
        return f"{SEAL} was changed or cut"
    for name, expected in body["files"].items():
        problem = _compare(folder / name, name, expected)
        if problem:
            return problem
    state: dict[str, Any] = body["state"]
    return state


def total_size(folder: Path) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in _files(folder))


def _compare(path: Path, name: str, expected: Mapping[str, Any]) -> str | None:
    try:
        size = path.stat().st_size
        if size != expected["size"]:
            return f"{name} has {size} bytes and should have {expected['size']}"
        if _checksum(path) != expected["crc32"]:
            return f"the content of {name} is not what was written"
    except FileNotFoundError:
        return f"{name} is missing"
    except OSError as error:
        return f"{name} cannot be read ({error.strerror or error})"
    return None


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _checksum(path: Path) -> str:
    value = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            value = zlib.crc32(block, value)
    return f"{value:08x}"


def _body_checksum(body: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(body, sort_keys=True).encode()):08x}"
