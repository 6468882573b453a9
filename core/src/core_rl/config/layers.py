"""A run file and everything that it extends, the ground layer first."""

from __future__ import annotations

import os
from pathlib import Path

import attrs

from core_rl.config.reader import read_file_text
from core_rl.config.recipes import find_recipe
from core_rl.config.tree import INVALID, ListNode, MapNode, Node, Scalar
from core_rl.config.words import found
from core_rl.config.yaml_syntax import read_text
from core_rl.errors import PluginError, Problem

_SUFFIXES = (".yaml", ".yml")


@attrs.frozen
class _Source:
    """`shown` is the name in messages; `path` is where the text lies."""

    shown: str
    path: Path


def read_layers(path: Path, problems: list[Problem]) -> list[MapNode]:
    """The layers of a run file, without their `extends`. A layer that cannot be read is a problem, and left out."""
    return _layers(_Source(str(path), path), (), problems)


def _layers(source: _Source, open_files: tuple[_Source, ...], problems: list[Problem]) -> list[MapNode]:
    text = read_text(source.path, source.shown)
    if isinstance(text, Problem):
        problems.append(text)
        return []
    before = len(problems)
    root = read_file_text(text, source.shown, problems)
    if not isinstance(root, MapNode):
        if len(problems) == before:
            what = "the file is empty" if root is None else f"expected a mapping of sections, found {found(root)}"
            problems.append(Problem(source.shown if root is None else root.origin.where, "", what))
        return []
    layers: list[MapNode] = []
    for node in _extended(root, problems):
        layers += _extend(node, source, (*open_files, source), problems)
    rest = {key: value for key, value in root.items.items() if key != "extends"}
    return [*layers, attrs.evolve(root, items=rest)]


def _extended(root: MapNode, problems: list[Problem]) -> list[Scalar]:
    node = root.items.get("extends")
    given = node.items if isinstance(node, ListNode) else [] if node is None else [node]
    names = []
    for item in given:
        if isinstance(item, Scalar) and isinstance(item.value, str):
            names.append(item)
        elif not (isinstance(item, Scalar) and item.value is INVALID):
            message = f"expected a YAML file or a plugin's recipe, or a list of them, found {found(item)}"
            problems.append(Problem(item.origin.where, "extends", message))
    return names


def _extend(node: Scalar, source: _Source, open_files: tuple[_Source, ...], problems: list[Problem]) -> list[MapNode]:
    try:
        target = _target(node.value, source)
    except PluginError as error:
        problems.append(Problem(node.origin.where, "extends", str(error)))
        return []
    if not target.path.is_file():
        what = "is a directory" if target.path.is_dir() else "is no file"
        problems.append(Problem(node.origin.where, "extends", f"{target.shown} {what} (paths are relative to {source.shown})"))
        return []
    real = target.path.resolve()
    for index, one in enumerate(open_files):
        if one.path.resolve() == real:
            circle = " -> ".join([*(file.shown for file in open_files[index:]), one.shown])
            problems.append(Problem(node.origin.where, "extends", f"these files extend each other in a circle: {circle}"))
            return []
    return _layers(target, open_files, problems)


def _target(name: str, source: _Source) -> _Source:
    if name.endswith(_SUFFIXES):
        shown = os.path.normpath(Path(source.shown).parent / name)
        path = source.path.parent / name
        return _Source(shown if _is_file_name(source) else str(path), path)
    if "/" not in name:
        message = f"{name!r} is neither a file (.yaml) nor a recipe (DISTRIBUTION/NAME, see core-rl recipes)"
        raise PluginError(message)
    recipe = find_recipe(name)
    return _Source(recipe.name, recipe.path)


def _is_file_name(source: _Source) -> bool:
    """Whether a source is shown by its path, and not as a recipe."""
    return source.shown.endswith(_SUFFIXES) or str(source.path) == source.shown


def merged_section(layers: list[MapNode], key: str) -> dict[str, Node]:
    """A section of plain keys from all layers, before the classes have been asked."""
    section: dict[str, Node] = {}
    for layer in layers:
        node = layer.items.get(key)
        if isinstance(node, MapNode):
            section.update(node.items)
    return section
