"""One layer of a run file over another.

Mappings merge, lists and scalars replace. A selection whose name changes drops the options that stood there; one that
gives no name, or the same, changes single options.
"""

from __future__ import annotations

from typing import Any

import attrs

from core_rl.config.fields import Field, fields_of, section_class
from core_rl.config.lookup import Lookup
from core_rl.config.selection import WEIGHTED, Selection
from core_rl.config.tree import ItemPatch, ListNode, MapNode, Node, Origin, Scalar, from_python, join
from core_rl.errors import PluginError, Problem

_DEFAULT = Origin("", "default")


@attrs.frozen(kw_only=True)
class Spec:
    """What the classes say of one place: a section's class, or the kind of component, and the default."""

    cls: type | None = None
    kind: str | None = None
    many: bool = False
    default: Any = None

    @classmethod
    def of(cls, field: Field, base: Any = None) -> Spec:
        default = field.default(base)
        default = None if default is attrs.NOTHING else default
        return cls(cls=None if field.kind else section_class(field.hint), kind=field.kind, many=field.many, default=default)

    def children(self) -> dict[str, Spec]:
        """Of a section, by key."""
        if self.cls is None:
            return {}
        base = self.default if isinstance(self.default, self.cls) else None
        try:
            return {key: Spec.of(field, base) for key, field in fields_of(type(base) if base else self.cls).items()}
        except PluginError:
            return {}


def named(node: Node) -> Node:
    """The short form of a selection, written out."""
    if isinstance(node, Scalar) and isinstance(node.value, str):
        return MapNode(items={"name": attrs.evolve(node, key=None)}, origin=node.origin, key=node.key)
    return node


def name_of(node: Node | None) -> str | None:
    """The component's name in a written-out selection, if it gives one."""
    name = node.items.get("name") if isinstance(node, MapNode) else None
    return name.value if isinstance(name, Scalar) and isinstance(name.value, str) else None


@attrs.frozen
class Merger:
    lookup: Lookup
    problems: list[Problem]

    def merge(self, base: Node | None, over: Node, spec: Spec, path: str = "") -> Node:
        if isinstance(over, ItemPatch):
            return self._patch(base, over, spec, path)
        if spec.kind is not None and not spec.many:
            return self.selection(base, over, spec, path)
        if not isinstance(over, MapNode):
            return over
        return self._mapping(base, over, spec.children(), path)

    def selection(self, base: Node | None, over: Node, spec: Spec, path: str) -> Node:
        base, over = named(base) if base is not None else None, named(over)
        if not isinstance(over, MapNode):
            return over
        assert spec.kind is not None
        default = spec.default.name if isinstance(spec.default, Selection) else None
        old, new = name_of(base) or default, name_of(over)
        if base is not None and new is not None and old is not None and not self.lookup.same(spec.kind, old, new):
            base = _without_options(base, spec.kind)
        return self._mapping(base, over, self.options(spec, new or old), path)

    def options(self, spec: Spec, name: str | None) -> dict[str, Spec]:
        """What the keys of a selection are: those of its component's options class."""
        if name is None or spec.kind is None:
            return {}
        return Spec(cls=self.lookup.options_class_or_none(spec.kind, name)).children()

    def _mapping(self, base: Node | None, over: MapNode, children: dict[str, Spec], path: str) -> MapNode:
        items = dict(base.items) if isinstance(base, MapNode) else {}
        for key, value in over.items.items():
            items[key] = self.merge(items.get(key), value, children.get(key, Spec()), join(path, key))
        place = base if isinstance(base, MapNode) and over.origin.is_override else over
        return attrs.evolve(place, items=items)

    def _patch(self, base: Node | None, over: ItemPatch, spec: Spec, path: str) -> Node:
        if base is None and isinstance(spec.default, (list, tuple)):
            base = from_python(spec.default, _DEFAULT)
        if not isinstance(base, ListNode):  # a number as the key of a mapping, or a mistake that the walk will see
            return self.merge(base, MapNode(items={str(over.index): over.item}, origin=over.origin, key=over.key), spec, path)
        if over.index >= len(base.items):
            count = len(base.items)
            entries = f"entries 0 to {count - 1}" if count > 1 else ("the entry 0 only" if count else "no entries")
            self.problems.append(Problem(over.origin.where, path, f"no entry {over.index}: the list has {entries}"))
            return base
        items = list(base.items)
        item = Spec(kind=spec.kind) if spec.kind else Spec()
        items[over.index] = self.merge(items[over.index], over.item, item, join(path, over.index))
        return attrs.evolve(base, items=items)


def _without_options(base: Node, kind: str) -> Node | None:
    """A weight belongs to the entry, not to the component, and stays."""
    if kind not in WEIGHTED or not isinstance(base, MapNode) or "weight" not in base.items:
        return None
    return attrs.evolve(base, items={"weight": base.items["weight"]})
