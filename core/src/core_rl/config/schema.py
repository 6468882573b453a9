"""JSON Schema of a run file with the options of every installed component, for completion and help in editors.

Draft 7, which YAML language servers read. A file that extends another may leave out whatever that one says, so nothing is
required here but names, and a mapping without a name may have the keys of any component: `core-rl config check` knows better.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from core_rl.config.fields import Field, fields_of, is_section
from core_rl.config.lookup import Lookup
from core_rl.config.run_file import RunFile
from core_rl.config.selection import WEIGHTED, Selection
from core_rl.config.show import plain
from core_rl.config.words import LISTS, MAPPINGS
from core_rl.errors import PluginError

if TYPE_CHECKING:
    from core_rl.plugins.catalogue import Catalogue

Schema = dict[str, Any]

_ENVIRONMENT = {"type": "string", "pattern": r"\$\{", "description": "with a variable of the environment in it"}
_ELSEWHERE = {"type": "string", "pattern": "[:/]", "description": "module:Object, or plugin/name"}
_SIMPLE: dict[Any, Schema] = {
    str: {"type": "string"},
    Path: {"type": "string"},
    int: {"anyOf": [{"type": "integer"}, {"$ref": "#/definitions/environment"}]},
    float: {"anyOf": [{"type": "number"}, {"$ref": "#/definitions/environment"}]},
    bool: {"anyOf": [{"type": "boolean"}, {"$ref": "#/definitions/environment"}]},
    type(None): {"type": "null"},
    Any: {},
}


def json_schema(catalogue: Catalogue) -> Schema:
    """The schema of a run file, as plain values."""
    return _Maker(Lookup(catalogue)).run_file()


@attrs.define
class _Maker:
    lookup: Lookup
    definitions: dict[str, Schema] = attrs.field(factory=lambda: {"environment": _ENVIRONMENT})

    def run_file(self) -> Schema:
        text = {"type": "string"}
        extends = {"description": "a YAML file, a plugin's recipe, or a list of them; this file changes what they say"}
        body = self.section(RunFile)
        properties = {"extends": {**extends, "anyOf": [text, {"type": "array", "items": text}]}, **body["properties"]}
        return {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": "core-rl run file",
            **body,
            "properties": properties,
            "definitions": self.definitions,
        }

    def section(self, cls: type, base: Any = None) -> Schema:
        properties = {key: self.field(field, base) for key, field in fields_of(cls).items()}
        return {"type": "object", "additionalProperties": False, "properties": properties}

    def field(self, field: Field, base: Any) -> Schema:
        default = field.default(base)
        if field.kind is None:
            schema = self.of(field.hint, default)
        elif field.many:
            schema = {"type": "array", "items": self.selection(field.kind, None)}
        else:
            schema = self.selection(field.kind, default.name if isinstance(default, Selection) else None)
            if default is None:
                schema = {"anyOf": [schema, {"type": "null"}]}
        shown = default.name if isinstance(default, Selection) else plain(default)
        if default is attrs.NOTHING or field.secret or is_section(type(default)) or not _is_json(shown):
            return {"description": field.help, **schema}
        return {"description": field.help, "default": shown, **schema}

    def of(self, hint: Any, default: Any = None) -> Schema:
        """The schema of a type. `default` may be the instance whose values are a section's defaults."""
        kind = typing.get_origin(hint) or hint
        if hint in _SIMPLE:
            return dict(_SIMPLE[hint])
        if is_section(hint):
            known = isinstance(default, hint)
            return self.section(type(default) if known else hint, default if known else None)
        makers: tuple[tuple[bool, Callable[[tuple[Any, ...]], Schema]], ...] = (
            (kind in {typing.Union, types.UnionType}, lambda of: {"anyOf": [self.of(member, default) for member in of]}),
            (kind is typing.Literal, lambda of: {"enum": list(of)}),
            (kind in LISTS, lambda of: {"type": "array", **({"items": self.of(of[0])} if of else {})}),
            (kind in MAPPINGS, lambda of: {"type": "object", **({"additionalProperties": self.of(of[1])} if of else {})}),
        )
        return next((make(typing.get_args(hint)) for fits, make in makers if fits), {})

    def selection(self, kind: str, default: str | None) -> Schema:
        """A name, or a mapping with a name and the options of that component; no name means the default."""
        found = self.lookup.catalogue.components(kind)
        names = [{"const": one.component.name, "description": one.component.summary} for one in found]
        mappings = [self.component(kind, one.component.name, one.component.summary) for one in found]
        elsewhere = {"type": "object", "properties": {"name": _ELSEWHERE}, "required": ["name"]}
        keys = sorted(
            {key for one in found for key in self._keys(kind, one.component.name)} | ({"weight"} if kind in WEIGHTED else set())
        )
        nameless: Schema = {"type": "object", "not": {"required": ["name"]}, "propertyNames": {"enum": keys}}
        if default in {one.component.name for one in found}:
            nameless["allOf"] = [{"$ref": f"#/definitions/{kind}:{default}:options"}]
        return {"anyOf": [*names, _ELSEWHERE, *mappings, elsewhere, nameless]}

    def component(self, kind: str, name: str, summary: str) -> Schema:
        reference = f"{kind}:{name}"
        if reference not in self.definitions:
            self.definitions[reference] = {}  # holds the place while components inside this one are described
            body = self._options(kind, name)
            extra = {"weight": {"type": "number", "default": 1.0, "description": "in the sum"}} if kind in WEIGHTED else {}
            named: Mapping[str, Any] = {"name": {"const": name, "description": summary}, **extra, **body["properties"]}
            self.definitions[f"{reference}:options"] = {"properties": body["properties"]}
            self.definitions[reference] = {**body, "description": summary, "properties": named, "required": ["name"]}
        return {"$ref": f"#/definitions/{reference}"}

    def _keys(self, kind: str, name: str) -> Iterable[str]:
        cls = self.lookup.options_class_or_none(kind, name)
        return fields_of(cls) if cls is not None else ()

    def _options(self, kind: str, name: str) -> Schema:
        """Anything goes for a component whose options class cannot be imported here."""
        try:
            cls = self.lookup.options_class(kind, name)
        except PluginError:
            return {"type": "object", "properties": {}}
        return {"type": "object", "additionalProperties": False, "properties": {}} if cls is None else self.section(cls)


def _is_json(value: Any) -> bool:
    """Infinity, for one, is not."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
