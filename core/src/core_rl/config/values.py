"""One node into one annotated type: scalars, choices, unions, lists and mappings."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

from core_rl.config.fields import is_section
from core_rl.config.scalars import parse_scalar
from core_rl.config.tree import INVALID, ListNode, MapNode, Node, Scalar, join, origin_of, to_python
from core_rl.config.words import LISTS, MAPPINGS, expected, found, mend

if TYPE_CHECKING:
    from core_rl.config.walk import Owner, Walker

_SCALARS = (bool, int, float, str, Path, type(None))


@attrs.frozen(kw_only=True)
class Place:
    """`base` is the default, whose values stand where a section's keys are silent. A secret's value is never printed."""

    path: str
    base: Any = None
    secret: bool = False

    def under(self, key: str | int) -> Place:
        return Place(path=join(self.path, key), secret=self.secret)


_Reader: TypeAlias = Callable[[Node, Any, Place], Any]


@attrs.frozen
class Values:
    walker: Walker
    owner: Owner

    def read(self, node: Node, hint: Any, place: Place) -> Any:
        """The value, or INVALID with its problems reported."""
        if isinstance(node, Scalar) and node.value is INVALID:
            return INVALID
        self.walker.origins[place.path] = origin_of(node, secret=place.secret)
        reader = self._reader(hint)
        if reader is not None:
            return reader(node, hint, place)
        message = f"the options class gives this key the type {expected(hint)}, which a run file cannot hold"
        return self.walker.report(node.origin.where, place.path, message)

    def _reader(self, hint: Any) -> _Reader | None:
        kind = typing.get_origin(hint) or hint
        table: tuple[tuple[bool, _Reader], ...] = (
            (kind in {typing.Union, types.UnionType}, self._union),
            (kind in _SCALARS or kind is Literal or hint is None, self._scalar),
            (kind in LISTS, self._list),
            (kind in MAPPINGS, self._mapping),
            (is_section(hint), self._section),
            (hint is Any, lambda node, *_: to_python(node)),
        )
        return next((reader for fits, reader in table if fits), None)

    def _section(self, node: Node, hint: Any, place: Place) -> Any:
        owner = attrs.evolve(self.owner, words=f"key of `{place.path}`")
        if isinstance(place.base, hint):
            return self.walker.section(node, type(place.base), place.path, owner, place.base)
        return self.walker.section(node, hint, place.path, owner)

    def _wrong(self, node: Node, hint: Any, place: Place) -> Any:
        clause = "" if place.secret else mend(hint, node)
        origin = node.origin.masked() if place.secret else node.origin
        message = f"expected {expected(hint)}, found {found(node, secret=place.secret)}{clause}"
        return self.walker.report(origin.where, place.path, message)

    def _scalar(self, node: Node, hint: Any, place: Place) -> Any:
        value = convert(node, hint) if isinstance(node, Scalar) else INVALID
        return self._wrong(node, hint, place) if value is INVALID else value

    def _union(self, node: Node, hint: Any, place: Place) -> Any:
        """The member that fits. Where only one could, its own complaints are the best ones."""
        alternatives = typing.get_args(hint)
        if isinstance(node, Scalar):
            if node.value is None and type(None) in alternatives:
                return None
            fits = (convert(node, member) for member in sorted(alternatives, key=lambda member: not _exact(node, member)))
            value = next((value for value in fits if value is not INVALID), INVALID)
            return self._wrong(node, hint, place) if value is INVALID else value
        shaped = [member for member in alternatives if _takes(node, member)]
        if len(shaped) == 1:
            return self.read(node, shaped[0], place)
        for member in shaped:
            before = len(self.walker.problems)
            value = self.read(node, member, place)
            if value is not INVALID:
                return value
            del self.walker.problems[before:]
        return self._wrong(node, hint, place)

    def _list(self, node: Node, hint: Any, place: Place) -> Any:
        if not isinstance(node, ListNode):
            return self._wrong(node, hint, place)
        arguments, container = typing.get_args(hint), typing.get_origin(hint) or hint
        fixed = container is tuple and bool(arguments) and arguments[-1] is not Ellipsis
        if fixed and len(arguments) != len(node.items):
            message = f"expected a list of {len(arguments)} entries, found {len(node.items)}"
            return self.walker.report(node.origin.where, place.path, message)
        hints = arguments if fixed else [arguments[0] if arguments else Any] * len(node.items)
        pairs = enumerate(zip(node.items, hints, strict=True))
        values = [self.read(item, of, place.under(index)) for index, (item, of) in pairs]
        if any(value is INVALID for value in values):
            return INVALID
        return container(values) if container in {list, set, frozenset} else tuple(values)

    def _mapping(self, node: Node, hint: Any, place: Place) -> Any:
        if not isinstance(node, MapNode):
            return self._wrong(node, hint, place)
        key_hint, value_hint = typing.get_args(hint) or (str, Any)
        keys = [self._key(item, key, key_hint, place) for key, item in node.items.items()]
        values = [self.read(item, value_hint, place.under(key)) for key, item in node.items.items()]
        if any(value is INVALID for value in (*keys, *values)):
            return INVALID
        return dict(zip(keys, values, strict=True))

    def _key(self, node: Node, key: str, hint: Any, place: Place) -> Any:
        scalar = Scalar(value=parse_scalar(key), text=key, origin=node.key or node.origin, flexible=True)
        return self._scalar(scalar, str if hint is Any else hint, place.under(key))


def convert(node: Scalar, hint: Any) -> Any:
    """The value as that type, or INVALID. An integer is a number too; nothing else changes its type."""
    value = node.value
    if typing.get_origin(hint) is Literal:
        return _choice(node, typing.get_args(hint))
    if hint is str or hint is Path:
        text = node.text if node.flexible else value
        return hint(text) if isinstance(text, (str, Path)) else INVALID
    if hint is float and type(value) is int:
        return float(value) if abs(value) < 2**1023 else INVALID
    fits = hint is Any or (value is None and hint is None) or (isinstance(hint, type) and type(value) is hint)
    return value if fits else INVALID


def _choice(node: Scalar, choices: tuple[Any, ...]) -> Any:
    values = (node.value, node.text) if node.flexible else (node.value,)
    return next((choice for choice in choices for value in values if type(value) is type(choice) and value == choice), INVALID)


def _exact(node: Scalar, hint: Any) -> bool:
    return typing.get_origin(hint) is Literal or type(node.value) is hint


def _takes(node: Node, hint: Any) -> bool:
    """Whether a list or mapping could be read as that type at all."""
    kind = typing.get_origin(hint) or hint
    if isinstance(node, ListNode):
        return kind in LISTS or hint is Any
    return is_section(hint) or kind in MAPPINGS or hint is Any
