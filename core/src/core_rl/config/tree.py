"""A run file as nodes that remember where they came from, between YAML and the configuration classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

from core_rl.config.selection import Selection


class _Invalid:
    """The value of a place whose mistake has been reported already."""

    def __repr__(self) -> str:
        return "INVALID"


INVALID: Final = _Invalid()


@attrs.frozen
class Origin:
    """`where` stands in front of a problem; `label` is what `config show --origin` says."""

    where: str
    label: str

    @classmethod
    def of_override(cls, argument: str) -> Origin:
        return cls(argument, f"override {argument}")

    @property
    def is_override(self) -> bool:
        return self.label.startswith("override ")

    def masked(self) -> Origin:
        """Without the value, for a secret that came as `key=value`."""
        key, equals, _ = self.where.partition("=")
        return Origin.of_override(f"{key}=***") if equals and self.is_override else self


@attrs.frozen(kw_only=True)
class Scalar:
    """`text` is what the file says. `flexible`: it came from the environment, and is text wherever text is expected."""

    value: Any
    text: str
    origin: Origin
    key: Origin | None = None
    flexible: bool = False


@attrs.frozen(kw_only=True)
class MapNode:
    items: Mapping[str, Node]
    origin: Origin
    key: Origin | None = None


@attrs.frozen(kw_only=True)
class ListNode:
    items: Sequence[Node]
    origin: Origin
    key: Origin | None = None


@attrs.frozen(kw_only=True)
class ItemPatch:
    """An override of one entry of a list; it exists only until it is merged."""

    index: int
    item: Node
    origin: Origin
    key: Origin | None = None


Node: TypeAlias = Scalar | MapNode | ListNode | ItemPatch


def place(node: Node) -> str:
    """Where a missing key is reported: the key of the section, or its beginning where it has none."""
    return (node.key or node.origin).where


def origin_of(node: Node, *, secret: bool = False) -> Origin:
    """Of a value itself; of a section its key, which is where one looks for it."""
    origin = node.origin if isinstance(node, Scalar) else node.key or node.origin
    return origin.masked() if secret else origin


def join(path: str, key: str | int) -> str:
    return f"{path}.{key}" if path else str(key)


def from_python(value: Any, origin: Origin) -> Node:
    """Nodes for a default that a configuration class gives."""
    if isinstance(value, Selection):
        name = Scalar(value=value.name, text=value.name, origin=origin)
        weight = {} if value.weight == 1.0 else {"weight": from_python(value.weight, origin)}
        return MapNode(items={"name": name, **weight, **_items(value.options, origin)}, origin=origin)
    if isinstance(value, Mapping):
        return MapNode(items=_items(value, origin), origin=origin)
    if isinstance(value, (list, tuple)):
        return ListNode(items=[from_python(item, origin) for item in value], origin=origin)
    return Scalar(value=value, text=str(value), origin=origin)


def _items(value: Mapping[str, Any], origin: Origin) -> dict[str, Node]:
    return {str(key): from_python(item, origin) for key, item in value.items()}


def to_python(node: Node) -> Any:
    """Plain values, for a place that takes anything; INVALID where a mistake is inside."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, MapNode):
        mapping = {key: to_python(item) for key, item in node.items.items()}
        return INVALID if any(value is INVALID for value in mapping.values()) else mapping
    if isinstance(node, ListNode):
        items = [to_python(item) for item in node.items]
        return INVALID if any(value is INVALID for value in items) else items
    return INVALID
