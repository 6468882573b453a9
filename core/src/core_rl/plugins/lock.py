"""A lock for teams: which plugins, in which versions and with which files, may be installed where a run starts.

`core-rl plugins lock` writes what is installed. With `--locked`, or CORE_RL_LOCKED=path, discovery refuses anything else before it
imports a plugin. Every installed plugin counts, selected or not: lifecycle hooks of those that are not selected run too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from core_rl.errors import PluginError
from core_rl.plugins.distributions import Installed
from core_rl.plugins.selectors import canonical

VARIABLE = "CORE_RL_LOCKED"
DEFAULT = Path("core-rl.lock")


@attrs.frozen(kw_only=True)
class Locked:
    """One plugin distribution, as a lock file has it. `name` is canonical; `entry_points` are `name = module`, sorted."""

    name: str
    version: str
    entry_points: tuple[str, ...]
    hash: str
    editable: bool = False


@attrs.frozen(kw_only=True)
class Snapshot:
    """What is installed here, and what cannot be locked, with the reason. Both by canonical name."""

    plugins: Mapping[str, Locked]
    problems: Mapping[str, str]


def lock_path() -> Path | None:
    """The lock that is in force for this process."""
    text = os.environ.get(VARIABLE, "")
    return Path(text) if text else None


def require_lock() -> None:
    """Put `core-rl.lock` in force, or keep the one that the environment names."""
    if lock_path() is None:
        os.environ[VARIABLE] = str(DEFAULT)


def refuse_unlocked(installed: Installed) -> None:
    """Compare what is installed with the lock in force, if there is one.

    Raises:
        PluginError: the lock cannot be read, or something differs: a line for each plugin.
    """
    path = lock_path()
    if path is None:
        return
    from core_rl.plugins.lock_file import read_lock

    found = list(differences(path, read_lock(path), snapshot(installed)))
    if found:
        raise PluginError("\n".join(found))


def snapshot(installed: Installed) -> Snapshot:
    """Hash the files of every plugin. Nothing is imported."""
    from core_rl.plugins.lock_hash import hash_of

    problems = {canonical(row.plugin): row.reason for row in installed.broken}
    plugins: dict[str, Locked] = {}
    for candidate in installed.candidates:
        name = canonical(candidate.distribution)
        if name in plugins or name in problems:
            continue
        points = [one for one in installed.candidates if canonical(one.distribution) == name]
        try:
            digest, editable = hash_of(candidate.source, [point.module for point in points])
        except PluginError as error:
            problems[name] = str(error)
            continue
        plugins[name] = Locked(
            name=name,
            version=candidate.version,
            entry_points=tuple(sorted(f"{point.entry_point} = {point.value}" for point in points)),
            hash=digest,
            editable=editable,
        )
    return Snapshot(plugins=plugins, problems=problems)


def differences(path: Path, locked: Mapping[str, Locked], found: Snapshot) -> Iterator[str]:
    """One line for every plugin that is not as the lock file says: what it says, what is there, and the mend."""
    again = "core-rl plugins lock" if path == DEFAULT else f"core-rl plugins lock --output {path}"
    for name in sorted({*locked, *found.plugins, *found.problems}):
        ours, theirs = locked.get(name), found.plugins.get(name)
        if name in found.problems:
            says = f"has {ours.version}" if ours else "does not have it"
            yield f"{name}: {path} {says}; what is installed cannot be compared: {found.problems[name]}"
        elif ours is None:
            assert theirs is not None
            yield f"{name}: {path} does not have it, installed is {theirs.version}: pip uninstall {name}, or {again}"
        elif theirs is None:
            yield f"{name}: {path} has {ours.version}, and it is not installed: pip install {name}=={ours.version}, or {again}"
        else:
            what = _difference(ours, theirs)
            if what:
                yield f"{name}: {path} has {what}, or {again}"


def _difference(ours: Locked, theirs: Locked) -> str:
    """What the lock says, what is there, and how to get the former; empty if they are the same."""
    install = f"pip install {ours.name}=={ours.version}"
    if ours.version != theirs.version:
        return f"{ours.version}, installed is {theirs.version}: {install}"
    if ours.entry_points != theirs.entry_points:
        lists = [", ".join(one.entry_points) for one in (ours, theirs)]
        return f"the entry points {lists[0]}, installed are {lists[1]}: {_again(ours, theirs)}"
    if ours.hash != theirs.hash:
        return f"{ours.version} with files {short(ours.hash)}, installed are {short(theirs.hash)}: {_again(ours, theirs)}"
    return ""


def _again(ours: Locked, theirs: Locked) -> str:
    if theirs.editable:
        return "it is an editable install, so take its sources back to what was locked"
    return f"pip install --force-reinstall --no-deps {ours.name}=={ours.version}"


def short(digest: str) -> str:
    """Enough of a hash to tell two apart."""
    kind, _, text = digest.partition(":")
    return f"{kind}:{text[:12]}"
