"""`core-rl plugins lock`: write down which plugins are installed, or compare them with what was written."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from core_rl.errors import PluginError
from core_rl.plugins.distributions import installed_plugins
from core_rl.plugins.lock import DEFAULT, Snapshot, differences, lock_path, snapshot


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="the lock file; without it CORE_RL_LOCKED, or core-rl.lock in this folder"
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; print what differs from the lock file, and exit with 1"
    )


def run(args: argparse.Namespace) -> int:
    """0, or 1 when `--check` finds a difference."""
    path = args.output or lock_path() or DEFAULT
    found = snapshot(installed_plugins())
    return _check(path, found) if args.check else _write(path, found)


def _write(path: Path, found: Snapshot) -> int:
    from core_rl.plugins.lock_file import write_lock

    if found.problems:
        lines = [f"{name}: cannot be locked: {reason}" for name, reason in sorted(found.problems.items())]
        raise PluginError("\n".join(lines))
    write_lock(path, found.plugins.values())
    print(f"{path}: {len(found.plugins)} plugins")
    editable = sum(one.editable for one in found.plugins.values())
    if editable:
        print(
            f"core-rl: warning: {editable} of them are editable installs: every edit of their sources undoes the lock",
            file=sys.stderr,
        )
    return 0


def _check(path: Path, found: Snapshot) -> int:
    from core_rl.plugins.lock_file import read_lock

    lines = list(differences(path, read_lock(path), found))
    print("\n".join(lines) if lines else f"{path}: {len(found.plugins)} plugins as locked")
    return 1 if lines else 0
