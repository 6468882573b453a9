"""Why a name cannot be selected, and the mend, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.plugins.distributions import Broken
from core_rl.plugins.known import KNOWN
from core_rl.plugins.selectors import canonical
from core_rl.plugins.suggest import closest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core_rl.plugins.catalogue import Catalogue


def why_missing(catalogue: Catalogue, kind: str, name: str) -> str:
    """The message for a `name` (or `plugin/name`) of a kind that the catalogue does not have."""
    owner, _, plain = name.rpartition("/")
    if owner:
        return _why_owner(catalogue, kind, owner, plain)
    extra = KNOWN.get(kind, {}).get(plain)
    wanted = {plain, f"core-rl-{plain}", *([extra, f"core-rl-{extra}"] if extra else [])}
    unusable = _unusable(catalogue, wanted)
    if unusable is not None:
        return f"the {kind} {plain!r} cannot be used: {unusable}"
    if extra is not None:
        return f"the {kind} {plain!r} is not installed: pip install 'core-rl[{extra}]'"
    return f"there is no {kind} {plain!r}{_suggestion(catalogue, kind, plain)}{_broken_note(catalogue)}"


def _why_owner(catalogue: Catalogue, kind: str, owner: str, plain: str) -> str:
    from core_rl.plugins.catalogue import owned_by

    unusable = _unusable(catalogue, {owner})
    if unusable is not None:
        return f"the {kind} '{owner}/{plain}' cannot be used: {unusable}"
    plugins = [plugin for plugin in catalogue.plugins if owned_by(plugin, owner)]
    if plugins:
        has = [component.name for plugin in plugins for its_kind, component in plugin.components if its_kind == kind]
        return f"the plugin {plugins[0].distribution} has no {kind} {plain!r}; it has: {', '.join(has) or 'none'}"
    names = [name for plugin in catalogue.plugins for name in (plugin.distribution, plugin.entry_point)]
    match = closest(owner, names)
    hint = f"; did you mean {match + '/' + plain!r}?" if match else ""
    extras = {extra for names in KNOWN.values() for extra in names.values()}
    known = next((extra for extra in extras if canonical(owner) in {canonical(extra), f"core-rl-{canonical(extra)}"}), None)
    if known is not None:
        hint = f": pip install 'core-rl[{known}]'"
    return f"the plugin {owner!r} of '{owner}/{plain}' is not installed{hint}"


def _unusable(catalogue: Catalogue, names: Iterable[str]) -> str | None:
    """If one of these names is a plugin that is broken or blocked: which, and why."""
    from core_rl.plugins.catalogue import owned_by

    for rows, state in ((catalogue.broken, "broken"), (catalogue.blocked, "kept out")):
        for row in rows:
            if any(owned_by(row, name) for name in names):
                return _told(row, state)
    return None


def _told(row: Broken, state: str) -> str:
    version = f" {row.version}" if row.version else ""
    return f"the plugin {row.plugin}{version} is {state}: {row.reason}"


def _suggestion(catalogue: Catalogue, kind: str, name: str) -> str:
    installed = [one.component.name for one in catalogue.components(kind)]
    match = closest(name, [*installed, *KNOWN.get(kind, {})])
    if match is not None:
        install = "" if match in installed else f" (pip install 'core-rl[{KNOWN[kind][match]}]')"
        return f"; did you mean {match!r}?{install}"
    elsewhere = [one.kind for one in catalogue.components() if one.component.name == name]
    if elsewhere:
        return f"; {name!r} is a {elsewhere[0]}"
    return f"; there are: {', '.join(installed)}" if installed else "; none is installed"


def _broken_note(catalogue: Catalogue) -> str:
    if not catalogue.broken:
        return ""
    names = ", ".join(dict.fromkeys(row.plugin for row in catalogue.broken))
    return f" (plugins that are broken: {names}; see core-rl plugins list)"
