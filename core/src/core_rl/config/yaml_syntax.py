"""YAML text to PyYAML nodes, and what is wrong with it in one line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from core_rl.errors import Problem

PLAIN_TAG = "core-rl:plain"
"""The tag of a scalar without quotes and without a tag of its own: `core_rl.config.scalars` gives it its type."""

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    yaml_implicit_resolvers: dict[str | None, list[Any]] = {None: [(PLAIN_TAG, re.compile(""))]}  # noqa: RUF012 - PyYAML's name


def read_text(path: Path, shown: str) -> str | Problem:
    """The text of a file, or why there is none."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return Problem(shown, "", "no such file")
    except IsADirectoryError:
        return Problem(shown, "", "this is a directory; give the YAML file in it")
    except OSError as error:
        return Problem(shown, "", f"cannot be read: {error.strerror}")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line, column = before.count(b"\n") + 1, len(before) - (before.rfind(b"\n") + 1) + 1
        return Problem(f"{shown}:{line}:{column}", "", f"byte {raw[error.start]:#04x} is not UTF-8; save the file as UTF-8")


def compose(text: str) -> yaml.Node | tuple[int, int, str] | None:
    """The document's root node, None where it is empty, or (line, column, message) of its first mistake, both from 1."""
    try:
        root: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        return _marked(text, error)
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        column = error.position - (before.rfind("\n") + 1) + 1
        return before.count("\n") + 1, column, f"the character {chr(int(error.character))!r} is not allowed in YAML"
    return root


def _marked(text: str, error: yaml.MarkedYAMLError) -> tuple[int, int, str]:
    mark, context = error.problem_mark, error.context_mark
    lines = text.split("\n")
    assert mark is not None
    at_end = mark.line >= len(lines) or (mark.line == len(lines) - 1 and not lines[mark.line])
    message = _in_words(lines[mark.line] if mark.line < len(lines) else "", mark.column, str(error.problem))
    if at_end and context is not None and context.line < mark.line:
        return context.line + 1, context.column + 1, f"{message}; the file ends before what begins here is closed"
    return mark.line + 1, mark.column + 1, message


def _in_words(line: str, column: int, problem: str) -> str:
    found = line[column : column + 1]
    cases = {
        "a tab cannot indent YAML; use spaces": found == "\t" or "tab character" in problem,
        f"`{found}` cannot begin a value; put the text in quotes": "cannot start any token" in problem,
        "put ${…} in quotes where it stands inside { } or [ ]": found == "{" and line[:column].endswith("$"),
        "a `:` where no key can stand: look at the indentation, or put text with `: ` in it in quotes": "mapping values"
        in problem,
        "a second YAML document begins here; a run file is one": "another document" in problem,
        f"{line[column:].partition(' ')[0]} names no anchor above it": "undefined alias" in problem,
    }
    return next((words for words, fits in cases.items() if fits), f"not valid YAML: {problem}")
