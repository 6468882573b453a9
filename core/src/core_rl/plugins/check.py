"""What is wrong with a plugin that listing does not see: its targets, options classes and capability names."""

from __future__ import annotations

import importlib.metadata
import inspect
from collections.abc import Iterator
from typing import Any

import attrs

from core_rl.capabilities import CAPABILITIES
from core_rl.component import Component
from core_rl.config.algorithm import AlgorithmConfig
from core_rl.config.fields import fields_of, section_class
from core_rl.config.offline import OfflineConfig
from core_rl.errors import PluginError
from core_rl.kinds import ROLES
from core_rl.plugins.guard import HeavyImportError, heavy_import_guard
from core_rl.plugins.loading import Plugin
from core_rl.plugins.references import load_reference
from core_rl.plugins.selectors import CORE, canonical
from core_rl.suggest import did_you_mean

NO_SUMMARY = "has no summary"


def findings(plugin: Plugin) -> list[str]:
    """Everything that is wrong with a loaded plugin, a line each. It imports the targets, which may be heavy.

    The options classes are imported first: in a fresh process, the guard sees what they import.
    """
    found = list(_contract(plugin))
    for part in (config_findings, target_findings, word_findings):
        for kind, component in plugin.components:
            found += [f"{kind} {component.name}: {text}" for text in part(kind, component)]
    return list(dict.fromkeys(found))


def _contract(plugin: Plugin) -> Iterator[str]:
    requires = importlib.metadata.distribution(plugin.distribution).requires or []
    names = {canonical(text[:7]) for text in requires}
    if canonical(plugin.distribution) != CORE and CORE not in names:
        yield "its distribution does not require core-rl: write core-rl>=x,<y"


def config_findings(kind: str, component: Component) -> Iterator[str]:
    """Of its options class: what it imports, and its fields."""
    if component.config is None:
        if kind == "algorithm":
            yield "an algorithm has an options class, the same as its target"
        return
    try:
        with heavy_import_guard():
            cls = load_reference(component.config)
    except HeavyImportError as error:
        yield f"the options class {component.config} {error}"
        return
    except PluginError as error:
        yield f"the options class: {error}"
        return
    if not isinstance(cls, type) or not attrs.has(cls):
        yield f"the options class {component.config} is no attrs class"
        return
    yield from _field_findings(cls, "")
    if kind == "algorithm" and not issubclass(cls, AlgorithmConfig | OfflineConfig):
        bases = "core_rl.config.algorithm.AlgorithmConfig or core_rl.config.offline.OfflineConfig"
        yield f"the options class {component.config} is no subclass of {bases}"


def _field_findings(cls: type, path: str) -> Iterator[str]:
    if getattr(cls.__setattr__, "__name__", "") != "_frozen_setattrs":
        yield f"the options class {cls.__name__} is not frozen"
    try:
        fields = fields_of(cls)
    except PluginError as error:
        yield str(error)
        return
    for key, field in fields.items():
        if not field.help:
            yield f"the option {path}{key} of {cls.__name__} has no help"
        inner = section_class(field.hint)
        if inner is not None:
            yield from _field_findings(inner, f"{path}{key}.")


def target_findings(kind: str, component: Component) -> Iterator[str]:
    """Of its target, which is imported."""
    try:
        target = load_reference(component.target)
    except PluginError as error:
        yield f"the target: {error}"
        return
    if not callable(target):
        yield f"the target {component.target} cannot be called"
    elif kind == "algorithm":
        if component.target != component.config:
            yield f"the target {component.target} is not its options class {component.config}"
    elif isinstance(target, type):
        for name in _methods(kind):
            if not callable(getattr(target, name, None)):
                yield f"the target {component.target} has no method {name} (see {ROLES[kind]})"


def _methods(kind: str) -> list[str]:
    """The methods of the kind's contract."""
    protocol: Any = load_reference(ROLES[kind])
    return [
        name
        for name, value in vars(protocol).items()
        if inspect.isfunction(value) and (name == "__call__" or not name.startswith("_"))
    ]


def word_findings(_: str, component: Component) -> Iterator[str]:
    """Of what it says of itself."""
    for word in ("needs", "provides"):
        for name in sorted(getattr(component, word)):
            if name not in CAPABILITIES:
                yield f"{word} {name!r}, which is no capability of core-rl{did_you_mean(name, CAPABILITIES)}"
    if not component.summary:
        yield NO_SUMMARY
