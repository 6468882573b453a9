"""One hash over the files of an installed distribution. Files are read, nothing is imported.

    sha256 over the lines `path NUL sha256(content)`, sorted by path

The files are those that RECORD names, as they are on the disk now, without what differs from machine to machine: scripts with a path in
their first line, bytecode, and the `.dist-info` folder, which the installer writes. Of an editable install they are the packages that its
entry points name, where Python would find them.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.metadata
import importlib.util
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from core_rl.errors import PluginError


def hash_of(distribution: importlib.metadata.Distribution | None, modules: Iterable[str]) -> tuple[str, bool]:
    """(hash, editable) of a distribution with these entry-point modules.

    Raises:
        PluginError: its files are not known, not readable, or not those that Python would import.
    """
    assert distribution is not None, "a plugin that no distribution announced cannot be locked"
    packages = {package: _place(package) for package in sorted({module.partition(".")[0] for module in modules})}
    source = _editable_source(distribution)
    if source is not None:
        for package, place in packages.items():
            _refuse_elsewhere(package, place, inside=source.resolve() in place.resolve().parents)
        files = {name: path for place in packages.values() for name, path in _package_files(place)}
    else:
        root = Path(str(distribution.locate_file("")))
        files = {name: f"{root}/{name}" for name in _recorded(distribution)}
        tops = {name.partition("/")[0] for name in files}
        for package, place in packages.items():
            inside = place.parent.resolve() == root.resolve() and place.name in tops
            _refuse_elsewhere(package, place, inside=inside)
    return _digest(files), source is not None


def _digest(files: Mapping[str, str]) -> str:
    """Of files by name. Paths are text in here: pathlib would take half of the time."""
    whole = hashlib.sha256()
    for name in sorted(files):
        try:
            with open(files[name], "rb") as file:  # noqa: PTH123
                content = file.read()
        except FileNotFoundError:
            message = f"its file {name} is not there (half uninstalled?): install it again"
            raise PluginError(message) from None
        except OSError as error:
            message = f"its file {files[name]} cannot be read ({error.strerror}): give this user the right to read it"
            raise PluginError(message) from error
        whole.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return f"sha256:{whole.hexdigest()}"


def _recorded(distribution: importlib.metadata.Distribution) -> Iterator[str]:
    """The files of RECORD that are the same on every machine."""
    text = distribution.read_text("RECORD")
    if text is None:
        message = "its RECORD is missing, so that its files are not known: install it again, with pip"
        raise PluginError(message)
    for row in csv.reader(text.splitlines()):
        name = row[0] if row else ""
        top = name.partition("/")[0]
        if name and top not in {"", ".."} and not top.endswith(".dist-info") and not name.endswith(".pyc"):
            yield name


def _editable_source(distribution: importlib.metadata.Distribution) -> Path | None:
    """The folder that an editable install points at. (PEP 610)"""
    text = distribution.read_text("direct_url.json")
    try:
        record = json.loads(text) if text else {}
        editable = bool(record.get("dir_info", {}).get("editable"))
        return Path(unquote(urlsplit(record["url"]).path)) if editable else None
    except (ValueError, KeyError, AttributeError) as error:
        message = f"its direct_url.json cannot be parsed ({type(error).__name__}: {error}): install it again"
        raise PluginError(message) from error


def _place(package: str) -> Path:
    """The folder of a package, or the file of a module, that `import` would take."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is not None and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    if spec is not None and spec.origin and spec.has_location:
        return Path(spec.origin)
    message = f"its module {package} is not there (half uninstalled?): install it again"
    raise PluginError(message)


def _refuse_elsewhere(package: str, place: Path, *, inside: bool) -> None:
    if not inside:
        message = (
            f"its module {package} would be imported from {place.parent}, which is not where it is installed: see sys.path"
        )
        raise PluginError(message)


def _package_files(place: Path) -> Iterator[tuple[str, str]]:
    """(path from the package's parent, file) of everything in a package, without bytecode and hidden files."""
    if place.is_file():
        yield place.name, str(place)
        return
    parent = len(str(place.parent)) + 1
    for folder, folders, names in os.walk(place):
        folders[:] = [name for name in folders if name != "__pycache__" and not name.startswith(".")]
        for name in names:
            if not name.startswith(".") and not name.endswith(".pyc"):
                path = f"{folder}/{name}"
                yield path[parent:], path
