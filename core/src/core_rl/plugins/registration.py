"""What a plugin module registers, checked: its hooks by name, arguments and mark, and the components they return."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import pluggy

from core_rl import hookspecs
from core_rl.component import Component
from core_rl.errors import PluginError
from core_rl.kinds import KINDS
from core_rl.plugins.lifecycle import PROJECT
from core_rl.suggest import did_you_mean

HOOKS: dict[str, tuple[str, ...]] = {
    name: tuple(inspect.signature(function).parameters)
    for name, function in vars(hookspecs).items()
    if name.startswith("core_rl_") and inspect.isfunction(function)
}
"""Every hook and the names of its arguments."""

_KIND_OF_HOOK = {hook: kind for kind, hook in KINDS.items()}
_READER = pluggy.PluginManager(PROJECT)
"""Reads the marks of `hookimpl`; nothing is registered in it."""


@attrs.frozen(kw_only=True)
class Registered:
    """What a plugin module has: components with their kinds, and lifecycle functions by attribute name."""

    components: tuple[tuple[str, Component], ...]
    lifecycle: Mapping[str, Callable[..., Any]]


def read_plugin(plugin: Any) -> Registered:
    """Check a plugin module's hooks and call those that register.

    Raises:
        PluginError: a hook is unknown, unmarked or wrong in its arguments, or returned something else than components.
    """
    hooks = list(_hooks(plugin))
    if not hooks:
        message = "implements no hook of core-rl (see docs/hooks.md)"
        raise PluginError(message)
    found = [
        (_KIND_OF_HOOK[hook], component)
        for _, hook, function in hooks
        if hook in _KIND_OF_HOOK
        for component in _components(hook, function)
    ]
    names = [(kind, component.name) for kind, component in found]
    for kind, name in names:
        if names.count((kind, name)) > 1:
            message = f"registers the {kind} {name!r} twice"
            raise PluginError(message)
    lifecycle = {attribute: function for attribute, hook, function in hooks if hook not in _KIND_OF_HOOK}
    return Registered(components=tuple(found), lifecycle=lifecycle)


def _hooks(plugin: Any) -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """(attribute, hook, function) of every implementation."""
    for attribute in dir(plugin):
        options = _READER.parse_hookimpl_opts(plugin, attribute)
        if options is None:
            _refuse_unmarked(plugin, attribute)
            continue
        hook, function = options["specname"] or attribute, getattr(plugin, attribute)
        if hook not in HOOKS:
            message = f"implements {hook}, which is no hook of core-rl{did_you_mean(hook, HOOKS)}"
            raise PluginError(message)
        if options["wrapper"] or options["hookwrapper"]:
            message = f"{hook} is a hook wrapper; core-rl's hooks take plain implementations"
            raise PluginError(message)
        _check_arguments(hook, function)
        yield attribute, hook, function


def _refuse_unmarked(plugin: Any, attribute: str) -> None:
    if attribute in HOOKS and inspect.isroutine(getattr(plugin, attribute)):
        message = f"{attribute} is not marked @core_rl.hookimpl, so it would never be called"
        raise PluginError(message)


def _check_arguments(hook: str, function: Any) -> None:
    for argument in inspect.signature(function).parameters:
        if argument not in HOOKS[hook]:
            has = ", ".join(HOOKS[hook]) or "none"
            message = f"{hook} takes the argument {argument!r}; the hook's arguments are: {has}"
            raise PluginError(message)


def _components(hook: str, function: Any) -> Iterator[Component]:
    returned = function()
    if isinstance(returned, str | bytes) or not hasattr(returned, "__iter__"):
        message = f"{hook} returned {_shown(returned)}; it returns a list of Component"
        raise PluginError(message)
    for item in returned:
        if not isinstance(item, Component):
            message = f"{hook} returned a list with {_shown(item)} in it; every item is a Component"
            raise PluginError(message)
        yield item


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"
