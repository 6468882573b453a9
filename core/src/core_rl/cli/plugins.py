"""`core-rl plugins`: what is installed, what it offers, and what is wrong with it."""

from __future__ import annotations

import argparse
import json
from typing import Any

from core_rl.cli import plugins_check, plugins_lock, plugins_new
from core_rl.kinds import KINDS
from core_rl.plugins.catalogue import Catalogue, Found
from core_rl.plugins.distributions import Broken


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    text = "list every component that a run file can select"
    listing = actions.add_parser("list", help=text, description=text)
    listing.add_argument("--json", action="store_true", help="for programs")
    listing.add_argument("--kind", choices=list(KINDS), metavar="KIND", help=f"only one of: {', '.join(KINDS)}")
    text = "show a plugin's or component's options, with defaults and help"
    showing = actions.add_parser("show", help=text, description=text)
    showing.add_argument("name", help="a plugin, a component, or plugin/component")
    text = "look for mistakes in a plugin, and run the conformance checks of its components"
    checking = actions.add_parser("check", help=text, description=text)
    plugins_check.add_arguments(checking)
    text = "write down which plugins are installed, for --locked"
    plugins_lock.add_arguments(actions.add_parser("lock", help=text, description=text))
    text = "write a new plugin: a distribution of your own with a working example of its kind"
    plugins_new.add_arguments(actions.add_parser("new", help=text, description=text))
    for action in (listing, showing, checking):
        action.add_argument("--allow", action="append", metavar="PLUGIN", help="see only these plugins; * stands for anything")
        action.add_argument("--block", action="append", metavar="PLUGIN", default=[], help="do not see these plugins")


def run(args: argparse.Namespace) -> int:
    if args.action == "lock":
        return plugins_lock.run(args)
    if args.action == "new":
        return plugins_new.run(args)
    catalogue = Catalogue.discover(allow=args.allow, block=args.block)
    if args.action == "list":
        return _list(catalogue, args.kind, as_json=args.json)
    if args.action == "show":
        from core_rl.cli.plugins_show import show

        return show(catalogue, args.name)
    return plugins_check.run(args, catalogue)


def _list(catalogue: Catalogue, kind: str | None, *, as_json: bool) -> int:
    components = catalogue.components(kind)
    commands = _commands(catalogue) if kind is None else {}
    if as_json:
        document = {
            "components": [_component_row(found) for found in components],
            "commands": [{"name": name, "plugin": plugin} for name, plugin in commands.items()],
            "broken": [_broken_row(row) for row in catalogue.broken],
            "blocked": [_broken_row(row) for row in catalogue.blocked],
        }
        print(json.dumps(document, indent=2))
        return 0
    from core_rl.cli.tables import print_table

    rows = [(found.kind, found.component.name, str(found.plugin), found.component.summary) for found in components]
    print_table(f"{len(rows)} components", ("KIND", "NAME", "PLUGIN", "SUMMARY"), rows)
    if commands:
        print_table("\ncommands of plugins", ("COMMAND", "PLUGIN"), sorted(commands.items()))
    for title, broken in (("broken plugins", catalogue.broken), ("plugins kept out", catalogue.blocked)):
        if broken:
            reasons = [(f"{row.plugin} {row.version or ''}".strip(), row.reason) for row in broken]
            print_table(f"\n{len(broken)} {title}", ("PLUGIN", "REASON"), reasons)
    return 0


def _commands(catalogue: Catalogue) -> dict[str, str]:
    """Each command that a plugin adds, and the plugin."""
    if not catalogue.manager.hook.core_rl_add_commands.get_hookimpls():
        return {}
    from core_rl.cli.plugin_commands import add_plugin_commands

    return add_plugin_commands(catalogue.manager, argparse.ArgumentParser().add_subparsers())


def _component_row(found: Found) -> dict[str, Any]:
    component = found.component
    return {
        "kind": found.kind,
        "name": component.name,
        "plugin": found.plugin,
        "entry_point": found.entry_point,
        "version": found.version,
        "target": component.target,
        "config": component.config,
        "summary": component.summary,
        "needs": sorted(component.needs),
        "provides": sorted(component.provides),
    }


def _broken_row(row: Broken) -> dict[str, Any]:
    return {"plugin": row.plugin, "entry_point": row.entry_point, "version": row.version, "reason": row.reason}
