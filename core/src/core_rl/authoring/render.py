"""`core-rl plugins new`: a distribution that works, out of templates."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import attrs

from core_rl import __version__
from core_rl.authoring.kinds import KINDS, Kind
from core_rl.errors import UserError

_NAME = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")
_WORD = re.compile(r"%(\w+)%")
_SUFFIX = ".template"


@attrs.frozen(kw_only=True)
class NewPlugin:
    """What is to be written: `name` is that of the component, and of the distribution without its `core-rl-`."""

    name: str
    kind: str

    @property
    def distribution(self) -> str:
        return f"core-rl-{self.name.replace('_', '-')}"

    @property
    def module(self) -> str:
        return f"core_rl_{self.component}"

    @property
    def component(self) -> str:
        return self.name.replace("-", "_")

    @property
    def class_name(self) -> str:
        return "".join(word.capitalize() for word in re.split(r"[-_]", self.name))


def checked(name: str, kind: str) -> NewPlugin:
    """Raises `UserError` for a name that cannot be one."""
    short = name.removeprefix("core-rl-").removeprefix("core_rl_")
    if not _NAME.fullmatch(short):
        message = f"plugins new: a name is lower case letters and digits, in words with - or _ between them, found {name!r}"
        raise UserError(message)
    plugin = NewPlugin(name=short, kind=kind)
    if keyword.iskeyword(plugin.component) or plugin.component in {"core", "test", "tests"}:
        message = f"plugins new: {name!r} means something else in Python; take another name"
        raise UserError(message)
    return plugin


def write(plugin: NewPlugin, folder: Path) -> dict[str, str]:
    """The files that were written, by their path in the folder.

    Raises:
        UserError: there is something in the folder already, or it cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        message = f"plugins new: {folder} is there already and is not empty; nothing was written"
        raise UserError(message)
    files = rendered(plugin)
    try:
        for path, text in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"plugins new: cannot write {error.filename or folder}: {error.strerror}"
        raise UserError(message) from error
    return files


def rendered(plugin: NewPlugin) -> dict[str, str]:
    """Every file of the distribution, by its path. The templates of a kind stand over those that all have."""
    words = _words(plugin)
    root = resources.files("core_rl.authoring") / "templates"
    found: dict[str, str] = {}
    for folder in ("common", plugin.kind):
        for path, text in _templates(root / folder):
            found[_filled(path.removesuffix(_SUFFIX), words)] = _filled(text, words)
    return dict(sorted(found.items()))


def _templates(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _templates(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(_SUFFIX):
            yield f"{prefix}{entry.name}", entry.read_text(encoding="utf-8")


def _filled(text: str, words: Mapping[str, str]) -> str:
    return _WORD.sub(lambda found: words.get(found.group(1), found.group(0)), text)


def _words(plugin: NewPlugin) -> dict[str, str]:
    kind = KINDS[plugin.kind]
    major, minor, *_ = __version__.split(".")
    return {
        "name": plugin.component,
        "distribution": plugin.distribution,
        "module": plugin.module,
        "Class": plugin.class_name.removesuffix(kind.suffix) + kind.suffix,
        "kind": plugin.kind.replace("-", " "),
        "hook": kind.hook,
        "file": kind.module,
        "summary": kind.summary,
        "about": kind.about,
        "capabilities": _capabilities(kind),
        "extras": ",".join(("local", "jsonl", "function", *kind.extras)),
        "dependencies": json.dumps([f"core-rl>={major}.{minor}.0,<{major}.{int(minor) + 1}"]),
        "core_minor": f"{major}.{minor}",
    }


def _capabilities(kind: Kind) -> str:
    lines = [
        f"            {what}=frozenset({{{', '.join(json.dumps(name) for name in names)}}}),\n"
        for what, names in (("needs", kind.needs), ("provides", kind.provides))
        if names
    ]
    return "".join(lines)
