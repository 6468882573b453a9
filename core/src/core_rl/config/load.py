"""A run file, from its path and overrides to `RunFile` with every component resolved, or `ConfigError` with all mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from core_rl.config.checks import check
from core_rl.config.layers import merged_section, read_layers
from core_rl.config.lookup import Lookup
from core_rl.config.merge import Merger, Spec
from core_rl.config.overrides import Override, apply_override, parse_overrides
from core_rl.config.run_file import RunFile
from core_rl.config.tree import INVALID, MapNode, Node, Origin, to_python
from core_rl.config.walk import Owner, Walker
from core_rl.errors import ConfigError, Problem
from core_rl.plugins.catalogue import Catalogue

_PLACE = re.compile(r"(?P<file>.+):(?P<line>\d+):(?P<column>\d+)", re.DOTALL)


@attrs.frozen(kw_only=True)
class Loaded:
    """`origins` tells where the value of every path comes from; `catalogue` sees the plugins that the file lets it see."""

    run_file: RunFile
    origins: Mapping[str, Origin]
    catalogue: Catalogue


def load_run_file(path: Path | str, overrides: Sequence[str] = (), *, catalogue: Catalogue | None = None) -> RunFile:
    """Read, merge, check and resolve.

    Raises:
        ConfigError: with every mistake that the file and the overrides have.
    """
    return load(path, overrides, catalogue=catalogue).run_file


def load(path: Path | str, overrides: Sequence[str] = (), *, catalogue: Catalogue | None = None) -> Loaded:
    """As `load_run_file`, and where everything comes from.

    Without a catalogue the installed plugins are listed; the file's own allow and block lists narrow either.
    """
    problems: list[Problem] = []
    layers = read_layers(Path(path), problems)
    changes = parse_overrides(overrides, problems)
    if not layers:
        raise ConfigError(_in_order(problems))
    catalogue = _visible(catalogue, layers, changes)
    lookup = Lookup(catalogue)
    tree = _merged(layers, changes, Merger(lookup, problems))
    walker = Walker(lookup, problems)
    walker.origins[""] = layers[-1].origin
    run_file = walker.section(tree, RunFile, "", Owner(words="section"))
    if run_file is not INVALID and not problems:
        problems += check(run_file, walker.origins, catalogue.manager)
    if problems:
        raise ConfigError(_in_order(problems))
    return Loaded(run_file=run_file, origins=walker.origins, catalogue=catalogue)


def _merged(layers: Sequence[MapNode], changes: Iterable[Override], merger: Merger) -> Node:
    spec = Spec(cls=RunFile)
    tree: Node = layers[0]
    for layer in layers[1:]:
        tree = merger.merge(tree, layer, spec)
    for change in changes:
        tree = apply_override(tree, change, spec, merger)
    return tree


def _visible(catalogue: Catalogue | None, layers: list[MapNode], changes: Iterable[Override]) -> Catalogue:
    """The `plugins` section is read ahead of everything else; a mistake in it is reported by the walk."""
    section = merged_section(layers, "plugins")
    for change in changes:
        if change.keys[:-1] == ("plugins",):
            section[change.keys[-1]] = change.node
    lists: dict[str, Any] = {}
    for key in ("allow", "block"):
        value = to_python(section[key]) if key in section else None
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            lists[key] = value
    if catalogue is None:
        return Catalogue.discover(**lists)
    return catalogue.restricted(**lists) if lists else catalogue


def _in_order(problems: Iterable[Problem]) -> list[Problem]:
    """As one reads: file by file from the top, then the overrides; a place that an alias repeats is told once."""
    once: dict[tuple[str, str], Problem] = {}
    for problem in problems:
        once.setdefault((problem.where, problem.message), problem)

    def key(problem: Problem) -> tuple[int, str, int, int]:
        match = _PLACE.fullmatch(problem.where)
        return (0, match["file"], int(match["line"]), int(match["column"])) if match else (1, "", 0, 0)

    return sorted(once.values(), key=key)
