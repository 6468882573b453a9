"""The catalogue: every component that can be selected here, and every plugin that is broken."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Self

import attrs

from core_rl.component import Component
from core_rl.errors import PluginError
from core_rl.kinds import KINDS
from core_rl.plugins.distributions import Broken, installed_plugins
from core_rl.plugins.lifecycle import lifecycle_manager
from core_rl.plugins.loading import Plugin, load_plugin, not_usable
from core_rl.plugins.lock import refuse_unlocked
from core_rl.plugins.selectors import Lists, both, canonical, environment_lists, given_lists

if TYPE_CHECKING:
    import pluggy

_DISCOVERY = threading.RLock()  # the guard replaces builtins.__import__: one discovery at a time


@attrs.frozen(kw_only=True)
class Found:
    """A component and the plugin that registered it. `plugin` and `version` are None for a `module:Object`."""

    kind: str
    component: Component
    plugin: str | None
    version: str | None
    entry_point: str | None = None


@attrs.frozen(kw_only=True, eq=False)
class Catalogue:
    """What discovery found. Read-only; `restricted` gives a smaller one."""

    plugins: tuple[Plugin, ...]
    broken: tuple[Broken, ...]
    blocked: tuple[Broken, ...]
    """Plugins that an allow or block list keeps out; they were not imported."""
    manager: pluggy.PluginManager
    """For the lifecycle hooks: `manager.hook.core_rl_run_start(run=...)`. A plugin that fails in one costs a warning."""

    @classmethod
    def discover(cls, *, allow: Sequence[str] | None = None, block: Sequence[str] = ()) -> Self:
        """List the plugins that are installed, importing nothing heavy.

        The lists hold besides those of the environment (`CORE_RL_PLUGINS_ALLOW`, `CORE_RL_PLUGINS_BLOCK`). Their entries are
        distribution or entry-point names, and may have `*` in them. The core's own components are always there.

        Raises:
            PluginError: a lock is in force (see `core_rl.plugins.lock`), and something else is installed. Nothing was imported.
        """
        lists = both(given_lists(allow, block), environment_lists())
        installed = installed_plugins()
        refuse_unlocked(installed)
        plugins: list[Plugin] = []
        broken, blocked = _split(installed.broken, lists)
        with _DISCOVERY:
            for candidate in installed.candidates:
                reason = lists.refusal(candidate.distribution, candidate.entry_point)
                if reason is not None:
                    blocked.append(not_usable(candidate, reason))
                    continue
                result = load_plugin(candidate)
                twin = next((one for one in plugins if isinstance(result, Plugin) and one.module is result.module), None)
                if twin is not None:
                    broken.append(not_usable(candidate, f"its module is that of {twin.title}: one entry point is enough"))
                elif isinstance(result, Plugin):
                    plugins.append(result)
                else:
                    broken.append(result)
        return cls._of(plugins, broken, blocked)

    @classmethod
    def _of(cls, plugins: Iterable[Plugin], broken: Iterable[Broken], blocked: Iterable[Broken]) -> Self:
        ordered = tuple(sorted(plugins, key=lambda plugin: (canonical(plugin.distribution), plugin.entry_point)))
        return cls(
            plugins=ordered,
            broken=tuple(sorted(broken, key=_order)),
            blocked=tuple(sorted(blocked, key=_order)),
            manager=lifecycle_manager(ordered),
        )

    def restricted(self, *, allow: Sequence[str] | None = None, block: Sequence[str] = ()) -> Self:
        """The catalogue without what these lists keep out: those of a run file, which is read after discovery."""
        lists = given_lists(allow, block)
        broken, blocked = _split(self.broken, lists)
        reasons = [(plugin, lists.refusal(plugin.distribution, plugin.entry_point)) for plugin in self.plugins]
        blocked += [not_usable(plugin, reason) for plugin, reason in reasons if reason is not None]
        return self._of([plugin for plugin, reason in reasons if reason is None], broken, [*self.blocked, *blocked])

    def components(self, kind: str | None = None) -> list[Found]:
        """Everything of one kind, or of all, in the order of kinds and names."""
        order = list(KINDS)
        found = [
            Found(
                kind=its_kind,
                component=component,
                plugin=plugin.distribution,
                version=plugin.version,
                entry_point=plugin.entry_point,
            )
            for plugin in self.plugins
            for its_kind, component in plugin.components
            if kind is None or its_kind == kind
        ]
        return sorted(found, key=lambda one: (order.index(one.kind), one.component.name))

    def version(self, distribution: str) -> str | None:
        """The version of an installed plugin's distribution."""
        rows = [(p.distribution, p.version) for p in self.plugins]
        return next((version for name, version in rows if canonical(name) == canonical(distribution)), None)

    def find(self, kind: str, name: str) -> Found:
        """The component of a name, a `plugin/name` or a `module:Object`.

        Raises:
            PluginError: nothing or more than one thing has that name, or what has it is broken or blocked.
        """
        if ":" in name:
            from core_rl.plugins.objects import object_component

            return Found(kind=kind, component=object_component(kind, name), plugin=None, version=None)
        owner, _, plain = name.rpartition("/")
        owners = [one for one in self.components(kind) if one.component.name == plain and owned_by(one, owner)]
        if len(owners) == 1:
            return owners[0]
        if owners:
            raise PluginError(_ambiguous(kind, plain, owners))
        from core_rl.plugins.missing import why_missing

        raise PluginError(why_missing(self, kind, name))


def owned_by(found: Found | Plugin | Broken, owner: str) -> bool:
    """Whether `owner`, a distribution or entry-point name, means this plugin; an empty one means any."""
    distribution = found.distribution if isinstance(found, Plugin) else found.plugin
    names = (distribution or "", found.entry_point or "")
    return not owner or canonical(owner) in {canonical(name) for name in names}


def _ambiguous(kind: str, name: str, owners: Iterable[Found]) -> str:
    titles = [f"{one.plugin} (entry point {one.entry_point})" for one in owners]
    distributions = {one.plugin for one in owners}
    picks = [f"{one.plugin if len(distributions) == len(titles) else one.entry_point}/{name}" for one in owners]
    return f"the {kind} {name!r} is in {' and in '.join(titles)}: write {' or '.join(picks)}"


def _order(broken: Broken) -> tuple[str, str]:
    return canonical(broken.plugin), broken.entry_point


def _split(rows: Sequence[Broken], lists: Lists) -> tuple[list[Broken], list[Broken]]:
    """Those that stay broken, and those that a list keeps out: their reason is then that list."""
    broken: list[Broken] = []
    blocked: list[Broken] = []
    for row in rows:
        reason = lists.refusal(row.plugin, row.entry_point)
        if reason is None:
            broken.append(row)
        else:
            blocked.append(attrs.evolve(row, reason=reason))
    return broken, blocked
