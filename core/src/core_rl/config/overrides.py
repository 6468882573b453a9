"""`key=value` from the command line, as layers over the files.

A key is a dotted path, `rewards.0.weight` counts entries of a list, and the end of a path is enough where it is the end of
only one: `lr=1e-5`. A key of the section `run` needs no `run.`. Shorter paths come first, whatever the order they were
given in, so that `algorithm.group_size=4 algorithm=grpo` means what it says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from core_rl.config.merge import Merger, Spec, name_of, named
from core_rl.config.reader import read_override_text
from core_rl.config.selection import Selection
from core_rl.config.tree import ItemPatch, MapNode, Node, Origin
from core_rl.errors import Problem
from core_rl.suggest import nearest


@attrs.frozen(kw_only=True)
class Override:
    argument: str
    keys: tuple[str, ...]
    node: Node

    @property
    def rank(self) -> int:
        """A change of name comes before the options that it would drop."""
        return 2 * len(self.keys) - (2 if self.keys[-1] == "name" else 0)

    def layer(self, keys: Sequence[str]) -> Node:
        origin = Origin.of_override(self.argument)
        node = attrs.evolve(self.node, key=origin)
        for key in reversed(keys):
            if key.isdecimal():
                node = ItemPatch(index=int(key), item=node, origin=origin, key=origin)
            else:
                node = MapNode(items={key: node}, origin=origin, key=origin)
        return node


def parse_overrides(arguments: Sequence[str], problems: list[Problem]) -> list[Override]:
    overrides = []
    for argument in arguments:
        path, equals, text = argument.partition("=")
        keys = tuple(path.strip().split("."))
        if not equals or not all(keys):
            problems.append(
                Problem(argument, "", "an override is written key=value, with a dotted key such as train_engine.lr")
            )
            continue
        node = read_override_text(text, argument, ".".join(keys), problems)
        if node is not None:
            overrides.append(Override(argument=argument, keys=keys, node=node))
    return sorted(overrides, key=lambda override: override.rank)


def apply_override(tree: Node, override: Override, spec: Spec, merger: Merger) -> Node:
    """The tree with one override in it; as it was when the key is unknown or could mean several."""
    keys = _full_path(tree, override, spec, merger)
    return tree if keys is None else merger.merge(tree, override.layer(keys), spec)


def _full_path(tree: Node, override: Override, spec: Spec, merger: Merger) -> tuple[str, ...] | None:
    keys, top = override.keys, spec.children()
    if keys[0] in top:
        return keys
    if keys[0] in top["run"].children():
        return ("run", *keys)
    paths = list(_paths(tree, spec, merger, ()))
    candidates = [path for path in paths if path[-len(keys) :] == keys]
    if len(candidates) == 1:
        return candidates[0]
    written = ".".join(keys)
    if candidates:
        message = f"`{written}` could be {' or '.join('.'.join(path) for path in candidates)}; write one of them"
    else:
        message = f"no key is called `{written}`{_suggestion(keys, paths)}"
    merger.problems.append(Problem(override.argument, "", message))
    return None


def _suggestion(keys: tuple[str, ...], paths: list[tuple[str, ...]]) -> str:
    written = ".".join(keys)
    full = {".".join(path): path for path in paths}
    ends = {".".join(path[-len(keys) :]): name for name, path in reversed(full.items())}
    guess = nearest(written, full) or ends.get(nearest(written, ends) or "")
    return f"; did you mean `{guess}`?" if guess else ""


def _paths(node: Node | None, spec: Spec, merger: Merger, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Every key that the selected components and the sections have, lists left out."""
    children = spec.children()
    if spec.kind is not None and not spec.many:
        node = named(node) if node is not None else None
        default = spec.default.name if isinstance(spec.default, Selection) else None
        children = merger.options(spec, name_of(node) or default)
    if path:
        yield path
    for key, child in children.items():
        value = node.items.get(key) if isinstance(node, MapNode) else None
        yield from _paths(value, child, merger, (*path, key))
