"""`core-rl recipes`: the run files that plugins bring. `extends: NAME` builds on one; `show NAME > mine.yaml` copies it."""

from __future__ import annotations

import argparse
import json
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(recipes_command="list", json=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="recipes_command")
    listing = commands.add_parser("list", help="every recipe of every installed plugin (also without a command)")
    listing.add_argument("--json", action="store_true", help="as JSON")
    show = commands.add_parser("show", help="print a recipe")
    show.add_argument("name", help="as in the list: DISTRIBUTION/NAME")


def run(args: argparse.Namespace) -> int:
    from core_rl.config.recipes import find_recipe, recipes

    if args.recipes_command == "show":
        print(find_recipe(args.name).path.read_text(encoding="utf-8"), end="")
        return 0
    found = recipes()
    if args.json:
        print(json.dumps([{"name": one.name, "summary": one.summary} for one in found], indent=2, ensure_ascii=False))
        return 0
    if not found:
        print("no installed plugin brings a recipe", file=sys.stderr)
    width = max((len(one.name) for one in found), default=0)
    for one in found:
        print(f"{one.name:<{width}}  {one.summary}".rstrip())
    return 0
