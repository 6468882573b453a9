"""Which plugins are installed: our own walk over distributions and their entry points.

`importlib.metadata.entry_points` hides a second distribution of the same name, and pluggy's loader stops at the first plugin that
does not import. Here every entry point of the group becomes a `Candidate`, and what cannot even be read a `Broken`.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import attrs

from core_rl.plugins.selectors import canonical

GROUP = "core_rl.plugins"


@attrs.frozen(kw_only=True)
class Candidate:
    """One entry point of an installed distribution, not imported yet. `requires` are the distribution's own requirements."""

    distribution: str
    version: str
    entry_point: str
    value: str
    requires: tuple[str, ...] = ()
    source: importlib.metadata.Distribution | None = attrs.field(default=None, eq=False, repr=False)
    """Where the other metadata is; None for one that was made by hand."""

    @property
    def module(self) -> str:
        return self.value.partition(":")[0].strip()


@attrs.frozen(kw_only=True)
class Broken:
    """A plugin that is installed and cannot be used, and why. Fatal only when something of it is selected."""

    plugin: str
    entry_point: str
    version: str | None
    reason: str


@attrs.frozen(kw_only=True)
class Installed:
    """Everything that announces itself as a plugin, in the order of `sys.path`."""

    candidates: tuple[Candidate, ...]
    broken: tuple[Broken, ...]


@attrs.frozen(kw_only=True)
class _Facts:
    name: str
    version: str
    requires: tuple[str, ...]
    place: Path
    problem: str | None = None


def installed_plugins() -> Installed:
    """Read the entry points of every distribution once. Other metadata is parsed only for those that are plugins."""
    candidates: list[Candidate] = []
    broken: list[Broken] = []
    seen: dict[str, _Facts] = {}
    for distribution in importlib.metadata.distributions():
        names, problem = _entry_points(distribution)
        if not names:
            continue
        facts = _facts(distribution)
        first = seen.setdefault(canonical(facts.name), facts) if facts.name else facts
        if (first.place, first.version) == (facts.place, facts.version) and first is not facts:
            continue  # a folder that stands on sys.path twice shows its distributions twice; that is no mistake
        if first is not facts:
            problem = (
                f"a second copy of the distribution, hidden by version {first.version} before it on sys.path: uninstall one"
            )
        problem = problem or facts.problem
        for name, value in names:
            if problem is not None:
                plugin = facts.name or name
                broken.append(Broken(plugin=plugin, entry_point=name, version=facts.version or None, reason=problem))
            else:
                candidates.append(
                    Candidate(
                        distribution=facts.name,
                        version=facts.version,
                        entry_point=name,
                        value=value,
                        requires=facts.requires,
                        source=distribution,
                    )
                )
    return Installed(candidates=tuple(candidates), broken=tuple(broken))


def _entry_points(distribution: importlib.metadata.Distribution) -> tuple[list[tuple[str, str]], str | None]:
    """(name, value) of each in our group, and what is wrong with the file. One that cannot be read is somebody else's."""
    try:
        text = distribution.read_text("entry_points.txt")
    except Exception:  # noqa: BLE001 - a torn file of any distribution must not stop the listing
        return [], None
    if not text or f"[{GROUP}]" not in text:
        return [], None
    try:
        return [(point.name, point.value) for point in distribution.entry_points if point.group == GROUP], None
    except Exception as error:  # noqa: BLE001 - the same, but this one calls itself ours, so it is listed
        return [("?", "")], f"its entry_points.txt cannot be parsed ({type(error).__name__}: {error}): install it again"


def _facts(distribution: importlib.metadata.Distribution) -> _Facts:
    place = Path(str(distribution.locate_file(""))).resolve()
    try:
        message = distribution.metadata
        name, version = message["Name"] or "", message["Version"] or ""
        requires = tuple(distribution.requires or ())
        missing = "its metadata has no name or version (half uninstalled?): install it again"
        return _Facts(name=name, version=version, requires=requires, place=place, problem=None if name and version else missing)
    except Exception as error:  # noqa: BLE001 - see _entry_points
        problem = f"its metadata cannot be read ({type(error).__name__}: {error}): install it again"
        return _Facts(name="", version="", requires=(), place=place, problem=problem)
