"""The manager of the lifecycle hooks, in which no plugin's failure is another's.

Every implementation is wrapped before pluggy gets it: what it raises is told once on stderr, and the others are called as if it had
returned None. A `UserError` goes through: that is a plugin that means to stop the run.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pluggy

from core_rl import hookspecs
from core_rl.errors import UserError

if TYPE_CHECKING:
    from core_rl.plugins.loading import Plugin

PROJECT = "core_rl"


def lifecycle_manager(plugins: Iterable[Plugin]) -> pluggy.PluginManager:
    """With the lifecycle hooks of these plugins. Registration hooks are not in it: they were called once, at discovery."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    for plugin in plugins:
        holder = ModuleType(plugin.title)
        for name, function in plugin.lifecycle.items():
            setattr(holder, name, _isolated(function, plugin.distribution))
        manager.register(holder, plugin.title)
    return manager


def _isolated(function: Callable[..., Any], distribution: str) -> Callable[..., Any]:
    told = False

    @functools.wraps(function)  # pluggy reads the mark and the arguments through it
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal told
        try:
            return function(*args, **kwargs)
        except UserError:
            raise
        except Exception as error:  # noqa: BLE001 - the border to code that may not even be selected
            if not told:
                text = str(error).strip().partition("\n")[0]
                message = f"the plugin {distribution} failed in {function.__name__} ({type(error).__name__}: {text}); going on without"
                print(f"core-rl: warning: {message}", file=sys.stderr)
            told = True
            return None

    return call
