"""`core-rl plugins show`: what a plugin or component offers, option by option."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from core_rl.config.fields import Field, fields_of, section_class
from core_rl.config.selection import Selection
from core_rl.errors import PluginError
from core_rl.plugins.catalogue import Catalogue, Found, owned_by
from core_rl.plugins.references import load_reference


def show(catalogue: Catalogue, name: str) -> int:
    """Print every component of a plugin, or every component of that name."""
    owner, _, plain = name.rpartition("/")
    everything = catalogue.components()
    found = [one for one in everything if owned_by(one, name)] or [
        one for one in everything if one.component.name == plain and owned_by(one, owner)
    ]
    if not found:
        from core_rl.plugins.missing import why_no_plugin

        raise PluginError(why_no_plugin(catalogue, name, components=True))
    print("\n\n".join("\n".join(_lines(one)) for one in found))
    return 0


def _lines(found: Found) -> Iterator[str]:
    component = found.component
    yield f"{found.kind} {component.name}  ({found.plugin} {found.version})"
    if component.summary:
        yield f"  {component.summary}"
    yield f"  target    {component.target}"
    for word, names in (("needs", component.needs), ("provides", component.provides)):
        if names:
            yield f"  {word:<9} {', '.join(sorted(names))}"
    if component.config is None:
        yield "  no options"
        return
    rows = list(_options(load_reference(component.config), ""))
    widths = [max((len(row[index]) for row in rows), default=0) for index in range(2)]
    yield "  options" if rows else "  no options"
    for key, default, help_text in rows:
        yield f"    {key:<{widths[0]}}  {default:<{widths[1]}}  {help_text}".rstrip()


def _options(cls: type, path: str) -> Iterator[tuple[str, str, str]]:
    """(key, default, help) of an options class and of the sections in it."""
    for key, field in fields_of(cls).items():
        inner = section_class(field.hint)
        if inner is not None and not field.many:
            yield from _options(inner, f"{path}{key}.")
        else:
            yield path + key, _default(field), field.help


def _default(field: Field) -> str:
    if field.required:
        return "(required)"
    default = field.default()
    return "***" if field.secret and default else _shown(default)


def _shown(value: Any) -> str:
    """As the run file would have it."""
    if isinstance(value, Selection):
        return value.name if not value.options else f"{{name: {value.name}, …}}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(_shown(item) for item in value)}]"
    if value is attrs.NOTHING:
        return "(from the others)"
    words = {None: "null", True: "true", False: "false", "": '""'}
    return words.get(value, str(value)) if isinstance(value, bool | str | None) else str(value)
