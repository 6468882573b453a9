"""One YAML text into nodes: scalars typed, aliases and merge keys followed, variables put in, duplicate keys refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import yaml

from core_rl.config.environment import Substituted, substitute
from core_rl.config.scalars import parse_scalar
from core_rl.config.tree import INVALID, ListNode, MapNode, Node, Origin, Scalar, join
from core_rl.config.yaml_syntax import PLAIN_TAG, compose
from core_rl.errors import Problem

_CORE = "tag:yaml.org,2002:"
_DEEPEST = 100  # far below Python's own limit, and far above what a person writes
_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
    "null": (type(None),),
}


def read_file_text(text: str, shown: str, problems: list[Problem]) -> Node | None:
    """The nodes of a file's text; None when its syntax is broken or nothing is in it."""
    composed = compose(text)
    if isinstance(composed, tuple):
        problems.append(Problem(f"{shown}:{composed[0]}:{composed[1]}", "", composed[2]))
        return None
    if composed is None:
        return None

    def locate(mark: yaml.Mark) -> Origin:
        where = f"{shown}:{mark.line + 1}:{mark.column + 1}"
        return Origin(where, where)

    return _Reader(locate=locate, problems=problems).node(composed, "")


def read_override_text(text: str, argument: str, path: str, problems: list[Problem]) -> Node | None:
    """The nodes of an override's value; None when it cannot be read."""
    origin = Origin.of_override(argument)
    composed = compose(text)
    if isinstance(composed, tuple):
        problems.append(Problem(argument, path, composed[2]))
        return None
    if composed is None:
        return Scalar(value=None, text="", origin=origin, key=origin)
    return _Reader(locate=lambda _: origin, problems=problems).node(composed, path, key=origin)


@attrs.define(kw_only=True)
class _Reader:
    locate: Callable[[yaml.Mark], Origin]
    problems: list[Problem]
    open: set[int] = attrs.field(factory=set)  # collections being read, against an alias inside its own anchor

    def node(self, node: yaml.Node, path: str, key: Origin | None = None) -> Node:
        origin = self.locate(node.start_mark)
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, path, origin, key)
        kind = "map" if isinstance(node, yaml.MappingNode) else "seq"
        if node.tag != _CORE + kind:
            return self.wrong(path, origin, key, _no_meaning(node.tag))
        if id(node) in self.open:
            return self.wrong(path, origin, key, "this anchor holds an alias of itself")
        if len(self.open) >= _DEEPEST:
            return self.wrong(path.partition(".")[0], origin, key, f"nested more than {_DEEPEST} levels deep")
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return MapNode(items=self.mapping(node, path), origin=origin, key=key)
            items = [self.node(item, join(path, index)) for index, item in enumerate(node.value)]
            return ListNode(items=items, origin=origin, key=key)
        finally:
            self.open.discard(id(node))

    def wrong(self, path: str, origin: Origin, key: Origin | None, message: str) -> Scalar:
        self.problems.append(Problem(origin.where, path, message))
        return Scalar(value=INVALID, text="", origin=origin, key=key)

    def mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Node]:
        items: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        seen: dict[str, Origin] = {}
        for key_node, value_node in node.value:
            key = self.locate(key_node.start_mark)
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append(Problem(key.where, path, "a key is one word, found a list or mapping"))
                continue
            name = key_node.value
            if name == "<<" and key_node.tag == PLAIN_TAG:
                merged = {**self.merge_key(value_node, path, key), **merged}
                continue
            if name in seen:
                message = f"the key `{name}` is given twice; the first is at {seen[name].where}"
                self.problems.append(Problem(key.where, join(path, name), message))
            seen.setdefault(name, key)
            items[name] = self.node(value_node, join(path, name), key)
        return {**merged, **items}

    def merge_key(self, node: yaml.Node, path: str, key: Origin) -> dict[str, Node]:
        """`<<: *a` or `<<: [*a, *b]`; the first of several wins, and the mapping's own keys win over all."""
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        result: dict[str, Node] = {}
        for source in sources:
            read = self.node(source, path)
            if isinstance(read, MapNode):
                result = {**read.items, **result}
            else:
                self.problems.append(Problem(key.where, path, "`<<` takes an alias of a mapping, or a list of them"))
        return result

    def scalar(self, node: yaml.ScalarNode, path: str, origin: Origin, key: Origin | None) -> Scalar:
        found = substitute(node.value)
        if found.mistakes:
            for mistake in found.mistakes:
                self.problems.append(Problem(origin.where, path, mistake))
            return Scalar(value=INVALID, text="", origin=origin, key=key)
        if found.names:
            label = f"environment {', '.join(found.names)} ({origin.label})"
            origin = attrs.evolve(origin, label=label)
        value = self.typed(node.tag, found, path, origin)
        return Scalar(value=value, text=found.text, origin=origin, key=key, flexible=found.whole)

    def typed(self, tag: str, found: Substituted, path: str, origin: Origin) -> Any:
        """A variable alone is typed like what it stands for; one inside a text makes text; quotes make text."""
        if tag in {_CORE + "str", PLAIN_TAG} and not found.whole and (found.names or tag != PLAIN_TAG):
            return found.text
        value = parse_scalar(found.text)
        types = _TYPES.get(tag.removeprefix(_CORE), ())
        if tag in {_CORE + "str", PLAIN_TAG} or type(value) in types:
            return value
        message = f"{found.text!r} is not what its tag {_short(tag)} says" if types else _no_meaning(tag)
        self.problems.append(Problem(origin.where, path, message))
        return INVALID


def _no_meaning(tag: str) -> str:
    return f"the tag {_short(tag)} has no meaning in a run file"


def _short(tag: str) -> str:
    return tag.replace(_CORE, "!!") if tag.startswith(_CORE) else tag
