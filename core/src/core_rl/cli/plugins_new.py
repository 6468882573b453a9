"""`core-rl plugins new NAME --kind KIND`: a plugin that works, to begin with."""

from __future__ import annotations

import argparse
from pathlib import Path

from core_rl.authoring.kinds import KINDS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="of the component; the distribution is called core-rl-NAME")
    parser.add_argument("--kind", required=True, choices=list(KINDS), metavar="KIND", help=f"one of: {', '.join(KINDS)}")
    parser.add_argument(
        "--dir", type=Path, metavar="FOLDER", help="where it is written; core-rl-NAME in this folder by default"
    )


def run(args: argparse.Namespace) -> int:
    from core_rl.authoring.render import checked, write

    plugin = checked(args.name, args.kind)
    folder = Path(plugin.distribution) if args.dir is None else args.dir
    files = write(plugin, folder)
    lines = sum(len(text.splitlines()) for path, text in files.items() if path.endswith(".py"))
    print(f"{folder}: the {plugin.kind} {plugin.component}, {len(files)} files, {lines} lines of Python. It works as it is:")
    print(f"    cd {folder}")
    print("    pip install -e '.[test]'")
    print("    pytest")
    print("    core-rl train example/run.yaml")
    return 0
