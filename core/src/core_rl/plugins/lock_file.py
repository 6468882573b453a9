"""The lock file: TOML, sorted by name, one block for each plugin, so that a change reads well in a review."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from core_rl import __version__
from core_rl.errors import PluginError
from core_rl.plugins.lock import Locked

FORMAT = 1
_HEAD = """\
# Written by `core-rl plugins lock`. With --locked, core-rl refuses every other plugin, version and file.
format = {format}
"""
_TYPES: dict[str, type] = {"name": str, "version": str, "entry_points": list, "hash": str, "editable": bool}


def write_lock(path: Path, plugins: Iterable[Locked]) -> None:
    """Replace the file as a whole."""
    blocks = [_HEAD.format(format=FORMAT), *(_block(one) for one in sorted(plugins, key=lambda one: one.name))]
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        unfinished.write_text("\n".join(blocks), encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        message = f"{path}: the lock cannot be written ({error.strerror}): name another file with --output"
        raise PluginError(message) from error


def _block(plugin: Locked) -> str:
    rows = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in attrs.asdict(plugin).items()]
    return "\n".join(["[[plugin]]", *rows, ""])


def read_lock(path: Path) -> dict[str, Locked]:
    """The plugins of a lock file, by name.

    Raises:
        PluginError: there is no such file, it is no lock, or a newer core-rl wrote it.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        message = f"{path}: there is no such lock file: write it with core-rl plugins lock --output {path}"
        raise PluginError(message) from None
    except OSError as error:
        message = f"{path}: the lock file cannot be read ({error.strerror}): name a readable one in CORE_RL_LOCKED"
        raise PluginError(message) from error
    except ValueError as error:  # of TOML and of UTF-8
        raise PluginError(_broken(path, str(error))) from error
    _check_format(path, document.get("format"))
    entries = document.get("plugin", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise PluginError(_broken(path, "plugin is not a list of tables"))
    plugins: dict[str, Locked] = {}
    for place, entry in enumerate(entries, 1):
        one = _locked(path, place, entry)
        if one.name in plugins:
            raise PluginError(_broken(path, f"{one.name} is in it twice"))
        plugins[one.name] = one
    return plugins


def _check_format(path: Path, found: Any) -> None:
    if type(found) is not int or found < 1:
        raise PluginError(_broken(path, f"format is {found!r}, and a number is expected"))
    if found > FORMAT:
        message = (
            f"{path}: the lock has format {found}, and core-rl {__version__} reads up to {FORMAT}: upgrade core-rl to the "
            "version that wrote it"
        )
        raise PluginError(message)


def _locked(path: Path, place: int, entry: Mapping[str, Any]) -> Locked:
    who = f"plugin {entry.get('name', place)}"
    if unknown := sorted(set(entry) - set(_TYPES)):
        raise PluginError(_broken(path, f"{who} has the key {unknown[0]}; the keys are {', '.join(_TYPES)}"))
    for key, kind in _TYPES.items():
        if type(entry.get(key)) is not kind:
            raise PluginError(_broken(path, f"{who} has {key} = {entry.get(key)!r}, expected {kind.__name__}"))
    return Locked(**{**entry, "entry_points": tuple(entry["entry_points"])})


def _broken(path: Path, reason: str) -> str:
    return (
        f"{path}: no lock file of core-rl ({reason}): take it from version control, or write it anew with core-rl plugins lock"
    )
