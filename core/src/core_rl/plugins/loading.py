"""From a candidate to a loaded plugin, or to the reason why not. Whatever a plugin does wrong stays with that plugin."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from core_rl import __version__
from core_rl.component import Component
from core_rl.errors import PluginError
from core_rl.plugins.distributions import Broken, Candidate
from core_rl.plugins.guard import Attempts, forget, heavy_import_guard
from core_rl.plugins.registration import read_plugin
from core_rl.plugins.selectors import canonical


@attrs.frozen(kw_only=True, eq=False)
class Plugin:
    """A loaded plugin: where it comes from, its module, its components by kind and its lifecycle functions by name."""

    distribution: str
    version: str
    entry_point: str
    module: Any
    components: tuple[tuple[str, Component], ...]
    lifecycle: Mapping[str, Callable[..., Any]]

    @property
    def title(self) -> str:
        """The name under which pluggy knows it."""
        return f"{self.distribution}/{self.entry_point}"


def load_plugin(candidate: Candidate) -> Plugin | Broken:
    """Import one plugin and ask for its components, under the guard. Nothing but Ctrl-C leaves this function as an exception."""
    before = frozenset(sys.modules)
    with heavy_import_guard() as attempts, contextlib.redirect_stdout(sys.stderr):  # what it prints must not spoil --json
        try:
            result: Plugin | str = _load(candidate)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - discovery is a boundary: SystemExit and the guard's own error end here
            result = _reason(error, candidate)
    if attempts.modules:
        result = _heavy_reason(attempts)
        forget(attempts, before, candidate.module.partition(".")[0])
    if isinstance(result, Plugin):
        return result
    return not_usable(candidate, result)


def not_usable(plugin: Candidate | Plugin, reason: str) -> Broken:
    return Broken(plugin=plugin.distribution, entry_point=plugin.entry_point, version=plugin.version, reason=reason)


def _load(candidate: Candidate) -> Plugin:
    _check_version(candidate)
    _, _, attribute = candidate.value.partition("[")[0].partition(":")
    plugin: Any = importlib.import_module(candidate.module.partition("[")[0].strip())
    for name in filter(None, attribute.strip().split(".")):
        plugin = getattr(plugin, name)
    registered = read_plugin(plugin)
    return Plugin(
        distribution=candidate.distribution,
        version=candidate.version,
        entry_point=candidate.entry_point,
        module=plugin,
        components=registered.components,
        lifecycle=registered.lifecycle,
    )


def _check_version(candidate: Candidate) -> None:
    """pip checks this once, at installation; an upgrade of the core alone would slip past it."""
    for text in candidate.requires:
        if not canonical(text).startswith("core-rl"):
            continue  # packaging is slow to import: only for what may be ours
        from packaging.requirements import Requirement

        requirement = Requirement(text)
        ours = canonical(requirement.name) == "core-rl"
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if ours and applies and not requirement.specifier.contains(__version__, prereleases=True):
            message = f"requires core-rl{requirement.specifier}, and this is core-rl {__version__}"
            raise PluginError(message)


def _heavy_reason(attempts: Attempts) -> str:
    names = ", ".join(dict.fromkeys(attempts.modules))
    return f"imports {names} when plugins are listed; import it where it is used, in the component's target"


def _reason(error: BaseException, candidate: Candidate) -> str:
    """One line of why a plugin cannot be used."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        if candidate.module == error.name or candidate.module.startswith(f"{error.name}."):
            return f"its module {candidate.module} is not there (half uninstalled?): install {candidate.distribution} again"
        return f"needs the module {error.name}, which is not installed"
    try:
        text = str(error).strip().partition("\n")[0]
    except Exception:  # noqa: BLE001 - an exception whose __str__ raises is one more thing a plugin may do
        text = ""
    if isinstance(error, PluginError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
