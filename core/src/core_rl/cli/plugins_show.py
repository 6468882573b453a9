"""`core-rl plugins show`: what a plugin or component offers, option by option."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from core_rl.cli.tables import table_lines
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
    yield "  options" if rows else "  no options"
    yield from table_lines(rows, indent="    ")


def _options(cls: type, path: str, base: Any = None) -> Iterator[tuple[str, str, str]]:
    """(key, default, help) of an options class and of the sections in it. `base` holds the defaults, where it is given."""
    for key, field in fields_of(cls).items():
        default = field.default(base)
        inner = section_class(field.hint)
        if inner is not None and not field.many:
            yield from _options(inner, f"{path}{key}.", default if isinstance(default, inner) else None)
        else:
            yield path + key, _default(field, default), field.help


def _default(field: Field, default: Any) -> str:
    if default is attrs.NOTHING:
        return "(required)" if field.required else "(from the others)"
    return "***" if field.secret and default else _shown(default)


def _shown(value: Any) -> str:
    """As the run file would have it."""
    if isinstance(value, Selection):
        options = "".join(f", {key}: {_shown(option)}" for key, option in dict(value.options or {}).items())
        return f"{{name: {value.name}{options}}}" if options else value.name
    if isinstance(value, tuple | list):
        return f"[{', '.join(_shown(item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_shown(item)}' for key, item in value.items())}}}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value) or '""'
