"""What a configuration class holds: its fields with their types, and which of them are selections."""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Mapping
from typing import Any, Final

import attrs

from core_rl.config.selection import Selection
from core_rl.errors import PluginError

_NOTHING: Final = attrs.NOTHING


@attrs.frozen(kw_only=True)
class Field:
    """One key of a section. `kind` is the kind of component that stands there, `many` of them in a list."""

    name: str
    attribute: attrs.Attribute[Any]
    hint: Any
    kind: str | None
    many: bool
    weighted: bool = False

    @property
    def key(self) -> str:
        return self.attribute.alias or self.name

    @property
    def secret(self) -> bool:
        return bool(self.attribute.metadata.get("secret"))

    @property
    def help(self) -> str:
        return str(self.attribute.metadata.get("help", ""))

    def default(self, base: Any = None) -> Any:
        """What stands here when the file is silent: `base`'s value where there is a base, else the class's default.

        `attrs.NOTHING` when the key is required, or when the default is made from the other fields.
        """
        if base is not None:
            return getattr(base, self.name)
        default = self.attribute.default
        factory = getattr(default, "factory", None)  # of attrs.Factory, which attrs types as a function
        if factory is None:
            return default
        return _NOTHING if default.takes_self else factory()  # type: ignore[union-attr]

    @property
    def required(self) -> bool:
        return self.attribute.default is _NOTHING


@functools.cache
def fields_of(cls: type) -> Mapping[str, Field]:
    """By key, in the order of the class."""
    try:
        hints = typing.get_type_hints(cls)
    except (NameError, TypeError, AttributeError) as error:
        message = f"the options class {cls.__module__}.{cls.__qualname__} has an annotation that cannot be read: {error}"
        raise PluginError(message) from error
    fields = [
        Field(
            name=attribute.name,
            attribute=attribute,
            hint=hints.get(attribute.name, Any),
            kind=attribute.metadata.get("component"),
            many=bool(attribute.metadata.get("many")),
            weighted=bool(attribute.metadata.get("weighted")),
        )
        for attribute in attrs.fields(cls)
        if attribute.init
    ]
    return {field.key: field for field in fields}


def members(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a union; a type that is none is its own only one."""
    if typing.get_origin(hint) in {typing.Union, types.UnionType}:
        return typing.get_args(hint)
    return (hint,)


def is_section(hint: Any) -> bool:
    """Whether a mapping at this place is read into an attrs class."""
    return isinstance(hint, type) and attrs.has(hint) and hint is not Selection


def section_class(hint: Any) -> type | None:
    """That class, if it is the only one."""
    classes = [member for member in members(hint) if is_section(member)]
    return classes[0] if len(classes) == 1 else None
