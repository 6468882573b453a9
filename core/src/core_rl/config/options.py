"""The keys of a configuration class as rows, for tables in the docs and on the command line."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from core_rl.config.fields import Field, fields_of, members, section_class
from core_rl.config.selection import Selection
from core_rl.config.tree import join
from core_rl.config.words import LISTS, MAPPINGS, expected


@attrs.frozen(kw_only=True)
class Option:
    """One key. `default` is as one writes it, None where the key is required."""

    key: str
    type: str
    default: str | None
    help: str


def options_of(cls: type, prefix: str = "", base: Any = None) -> Iterator[Option]:
    """Every key of a class and of the sections inside it, by dotted path."""
    for key, field in fields_of(cls).items():
        path, default = join(prefix, key), field.default(base)
        inner = section_class(field.hint) if field.kind is None else None
        if inner is not None and default is not None:
            known = isinstance(default, inner)
            yield from options_of(type(default) if known else inner, path, default if known else None)
            continue
        shown = None if field.required else "…" if default is attrs.NOTHING else written(default)
        yield Option(key=path, type=type_words(field), default=shown, help=field.help)


def type_words(field: Field) -> str:
    """The type of a key in few words."""
    if field.kind is not None:
        optional = " or null" if type(None) in members(field.hint) else ""
        return f"list of {field.kind}" if field.many else f"{field.kind}{optional}"
    return _short(field.hint)


def _short(hint: Any) -> str:
    kind = typing.get_origin(hint) or hint
    if len(members(hint)) > 1:
        return " or ".join(_short(member) for member in members(hint))
    if kind is typing.Literal:
        return ", ".join(str(choice) for choice in typing.get_args(hint))
    if kind in LISTS:
        arguments = typing.get_args(hint)
        return f"list of {_short(arguments[0])}" if arguments else "list"
    if kind in MAPPINGS:
        return "mapping"
    return {int: "integer", float: "number", str: "text", bool: "true or false", Path: "path"}.get(hint) or expected(hint)


def written(value: Any) -> str:
    """A default as one line of YAML."""
    from core_rl.config.show import inline

    if isinstance(value, Selection) and not value.options:
        return value.name
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(written(item) for item in value)}]"
    return inline(value)
