"""Names of components to components and their options classes, each asked for once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from core_rl.config.fields import fields_of
from core_rl.errors import PluginError
from core_rl.plugins.references import load_reference

if TYPE_CHECKING:
    from core_rl.plugins.catalogue import Catalogue, Found


@attrs.define
class Lookup:
    """Raises `PluginError` again, and the same one, each time that a bad name is asked for."""

    catalogue: Catalogue
    _found: dict[tuple[str, str], Found | PluginError] = attrs.field(factory=dict, init=False)
    _options: dict[str, type | PluginError] = attrs.field(factory=dict, init=False)

    def find(self, kind: str, name: str) -> Found:
        key = (kind, name)
        if key not in self._found:
            try:
                self._found[key] = self.catalogue.find(kind, name)
            except PluginError as error:
                self._found[key] = error
        return _or_raise(self._found[key])  # type: ignore[no-any-return]

    def options_class(self, kind: str, name: str) -> type | None:
        """The attrs class of a component's options; None for a component without options."""
        reference = self.find(kind, name).component.config
        if reference is None:
            return None
        if reference not in self._options:
            try:
                self._options[reference] = _options_class(reference)
            except PluginError as error:
                self._options[reference] = error
        return _or_raise(self._options[reference])  # type: ignore[no-any-return]

    def options_class_or_none(self, kind: str, name: str) -> type | None:
        """For whoever only wants to know the shape, and leaves mistakes to the walk."""
        try:
            return self.options_class(kind, name)
        except PluginError:
            return None

    def same(self, kind: str, one: str, other: str) -> bool:
        """Whether two names select the same component, as `grpo` and `core-rl-grpo/grpo` do."""
        if one == other:
            return True
        try:
            return bool(self.find(kind, one).component == self.find(kind, other).component)
        except PluginError:
            return False


def _options_class(reference: str) -> type:
    cls = load_reference(reference)
    if not isinstance(cls, type) or not attrs.has(cls):
        message = f"{reference} is to be the attrs class of a component's options, and is not one"
        raise PluginError(message)
    fields_of(cls)
    return cls


def _or_raise(found: Any) -> Any:
    if isinstance(found, PluginError):
        raise found
    return found
