"""Every plugin: does it work here, and if not, why and what mends it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import attrs

from core_rl.doctor.imports import try_imports
from core_rl.doctor.requirements import Needed, backend_of

if TYPE_CHECKING:
    from core_rl.plugins.catalogue import Catalogue
    from core_rl.plugins.distributions import Broken
    from core_rl.plugins.loading import Plugin

State = Literal["works", "no backend", "broken", "blocked"]


@attrs.frozen(kw_only=True)
class PluginReport:
    """One plugin. `reason` and `mend` are empty when it works."""

    plugin: str
    entry_point: str
    version: str | None
    state: State
    components: tuple[str, ...] = ()
    backend: tuple[Needed, ...] = ()
    reason: str = ""
    mend: str = ""
    errors: Mapping[str, str] = attrs.field(factory=dict)
    """By target, where only some of its components cannot be imported."""
    facts: Mapping[str, Any] = attrs.field(factory=dict)


def examine(catalogue: Catalogue) -> tuple[list[PluginReport], dict[str, Any]]:
    """All plugins, and the facts of torch. The targets of plugins whose backend is there are really imported, elsewhere."""
    backends = {plugin.title: tuple(backend_of(plugin.distribution)) for plugin in catalogue.plugins}
    complete = [plugin for plugin in catalogue.plugins if not _missing(backends[plugin.title])]
    results = try_imports([{"plugin": "torch"}, *(_job(plugin) for plugin in complete)])
    reports = [_report(plugin, backends[plugin.title], results.get(plugin.title)) for plugin in catalogue.plugins]
    reports += [_unusable(row, "broken") for row in catalogue.broken]
    reports += [_unusable(row, "blocked") for row in catalogue.blocked]
    torch = {name: value for name, value in results["torch"].items() if name != "done"}
    return reports, torch


def _unusable(row: Broken, state: State) -> PluginReport:
    return PluginReport(plugin=row.plugin, entry_point=row.entry_point, version=row.version, state=state, reason=row.reason)


def _job(plugin: Plugin) -> dict[str, Any]:
    targets = dict.fromkeys(component.target for _, component in plugin.components)
    return {"plugin": plugin.title, "module": plugin.module.__name__, "targets": list(targets)}


def _missing(backend: tuple[Needed, ...]) -> list[Needed]:
    return [needed for needed in backend if needed.problem is not None]


def _report(plugin: Plugin, backend: tuple[Needed, ...], result: Mapping[str, Any] | None) -> PluginReport:
    report = PluginReport(
        plugin=plugin.distribution,
        entry_point=plugin.entry_point,
        version=plugin.version,
        state="works",
        components=tuple(f"{kind} {component.name}" for kind, component in plugin.components),
        backend=backend,
        facts=(result or {}).get("facts", {}),
    )
    missing = _missing(backend)
    if missing:
        reason = ", ".join(str(needed.problem) for needed in missing)
        return attrs.evolve(report, state="no backend", reason=reason, mend=f"pip install '{plugin.distribution}[backend]'")
    assert result is not None  # only what lacks its backend was left out
    if "crash" in result:
        return attrs.evolve(report, state="broken", reason=result["crash"])
    if result["errors"]:
        reason = "; ".join(dict.fromkeys(result["errors"].values()))
        return attrs.evolve(report, state="broken", reason=reason, errors=result["errors"])
    return report
