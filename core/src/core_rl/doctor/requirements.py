"""Which of a distribution's backend requirements are here, at which version, and which are not. Reads metadata, imports nothing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterator

import attrs
from packaging.requirements import Requirement

BACKEND = "backend"


@attrs.frozen(kw_only=True)
class Needed:
    """One requirement of a plugin. `found` is the installed version, None when there is none; `problem` is None when all is well."""

    requirement: str
    found: str | None
    problem: str | None


def backend_of(distribution: str) -> list[Needed]:
    """What the extra `backend` of an installed distribution asks for; empty when it has none."""
    return [_check(requirement) for requirement in _of_extra(distribution, BACKEND)]


def _of_extra(distribution: str, extra: str) -> Iterator[Requirement]:
    """The requirements that this extra adds to the distribution's own."""
    for text in importlib.metadata.requires(distribution) or []:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is not None and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""}):
            yield requirement


def _check(requirement: Requirement) -> Needed:
    text = f"{requirement.name}{requirement.specifier}"
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        # a container may bring its own build, without metadata or under another name
        if importlib.util.find_spec(requirement.name.replace("-", "_")) is not None:
            return Needed(requirement=text, found="unknown version", problem=None)
        return Needed(requirement=text, found=None, problem=f"{requirement.name} is not installed")
    if not requirement.specifier.contains(version, prereleases=True):
        return Needed(
            requirement=text, found=version, problem=f"{requirement.name} {version} is too old, needs {requirement.specifier}"
        )
    for extra in requirement.extras:
        for inner in _of_extra(requirement.name, extra):
            needed = _check(inner)
            if needed.problem is not None:
                return attrs.evolve(needed, problem=f"{needed.problem} (for {requirement.name}[{extra}])")
    return Needed(requirement=text, found=version, problem=None)
