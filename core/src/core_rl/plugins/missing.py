"""Why a name cannot be selected, and the mend, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.plugins.known import KNOWN
from core_rl.plugins.selectors import canonical
from core_rl.suggest import did_you_mean, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core_rl.plugins.catalogue import Catalogue


def why_missing(catalogue: Catalogue, kind: str, name: str) -> str:
    """The message for a `name` (or `plugin/name`) of a kind that the catalogue does not have."""
    owner, _, plain = name.rpartition("/")
    if owner:
        return f"the {kind} '{name}' cannot be used: {_why_not_of(catalogue, kind, owner, plain)}"
    extra = KNOWN.get(kind, {}).get(plain)
    unusable = _unusable(catalogue, {plain, extra or plain})
    if unusable is not None:
        return f"the {kind} '{plain}' cannot be used: {unusable}"
    if extra is not None:
        return f"the {kind} '{plain}' is not installed: {_install(extra)}"
    return f"there is no {kind} '{plain}'{_suggestion(catalogue, kind, plain)}"


def why_no_plugin(catalogue: Catalogue, name: str, *, components: bool = False) -> str:
    """The message for a plugin (or component, if those are meant too) that is not there."""
    unusable = _unusable(catalogue, {name})
    if unusable is not None:
        return unusable
    extra = _extra_of_plugin(name)
    if extra is not None:
        return f"the plugin '{name}' is not installed: {_install(extra)}"
    names = [word for plugin in catalogue.plugins for word in (plugin.entry_point, plugin.distribution)]
    if components:
        names += [found.component.name for found in catalogue.components()]
    what = "plugin or component" if components else "plugin"
    return f"there is no {what} '{name}'{did_you_mean(name, names)}"


def _why_not_of(catalogue: Catalogue, kind: str, owner: str, plain: str) -> str:
    from core_rl.plugins.catalogue import owned_by

    plugins = [plugin for plugin in catalogue.plugins if owned_by(plugin, owner)]
    if not plugins:
        return why_no_plugin(catalogue, owner)
    has = [component.name for plugin in plugins for its_kind, component in plugin.components if its_kind == kind]
    return f"the plugin {plugins[0].distribution} has no {kind} '{plain}'; it has: {', '.join(has) or 'none'}"


def _unusable(catalogue: Catalogue, names: Iterable[str]) -> str | None:
    """If one of these names is a plugin (`grpo` means `core-rl-grpo` too) that is broken or kept out: which, and why."""
    from core_rl.plugins.catalogue import owned_by

    owners = [owner for name in names for owner in (name, f"core-rl-{name}")]
    for rows, state in ((catalogue.broken, "broken"), (catalogue.blocked, "kept out")):
        for row in rows:
            if any(owned_by(row, owner) for owner in owners):
                version = f" {row.version}" if row.version else ""
                return f"the plugin {row.plugin}{version} is {state}: {row.reason}"
    return None


def _suggestion(catalogue: Catalogue, kind: str, name: str) -> str:
    installed = [found.component.name for found in catalogue.components(kind)]
    match = nearest(name, [*installed, *KNOWN.get(kind, {})])
    if match is not None and match not in installed:
        return f"; did you mean `{match}`? {_install(KNOWN[kind][match])}"
    if match is None:
        elsewhere = [found.kind for found in catalogue.components() if found.component.name == name]
        if elsewhere:
            return f"; '{name}' is a {' and a '.join(elsewhere)}"
        return did_you_mean(name, installed) + _broken_note(catalogue)
    return f"; did you mean `{match}`?"


def _extra_of_plugin(name: str) -> str | None:
    extras = {extra for names in KNOWN.values() for extra in names.values()}
    return next((extra for extra in extras if canonical(name).removeprefix("core-rl-") == canonical(extra)), None)


def _install(extra: str) -> str:
    return f"pip install 'core-rl[{extra}]'"


def _broken_note(catalogue: Catalogue) -> str:
    """What is missing may be in a plugin that does not load, and only that plugin knows."""
    names = ", ".join(dict.fromkeys(row.plugin for row in catalogue.broken))
    return f" (broken plugins: {names}; see core-rl plugins list)" if names else ""
