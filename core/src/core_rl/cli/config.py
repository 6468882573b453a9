"""`core-rl config`: check a run file, show what it comes to, describe what can stand in one."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from core_rl.cli.main import add_locked

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="config_command", required=True)
    check = commands.add_parser("check", help="report every mistake of a run file")
    show = commands.add_parser("show", help="write a run file out with every default in it")
    for command in (check, show):
        command.add_argument("file", type=Path, help="the run file (YAML)")
        command.add_argument("overrides", nargs="*", metavar="key=value", help="changes, such as train_engine.lr=1e-5")
        add_locked(command)
    show.add_argument("--origin", action="store_true", help="tell of every line where its value comes from")
    show.add_argument("--explain", action="store_true", help="the algorithm instead, part by part, in words and formulas")
    show.add_argument("--json", action="store_true", help="as JSON")
    schema = commands.add_parser("schema", help="list the keys of a run file with their types, defaults and help")
    schema.add_argument("--json", action="store_true", help="as JSON Schema with every component's options, for editors")


def run(args: argparse.Namespace) -> int:
    return {"check": _check, "show": _show, "schema": _schema}[args.config_command](args)


def _check(args: argparse.Namespace) -> int:
    from core_rl.capabilities import check_capabilities
    from core_rl.config.load import load_run_file
    from core_rl.errors import CapabilityError, ConfigError

    try:
        run_file = load_run_file(args.file, args.overrides)
        check_capabilities(run_file)
    except (ConfigError, CapabilityError) as error:
        lines = str(error).splitlines()
        print("\n".join(lines), file=sys.stderr)
        print(f"{args.file}: {len(lines)} problem{'s' if len(lines) > 1 else ''}", file=sys.stderr)
        return 2
    print(f"{args.file}: ok")
    for path, name in _selected(run_file):
        print(f"  {path:<18} {name}")
    return 0


def _selected(run_file: RunFile) -> list[tuple[str, str]]:
    """What each section selects, with the plugin that it comes from."""
    from core_rl.plugins.selected import selected

    return [(path, f"{one.name} ({one.plugin})" if one.plugin else one.name) for path, one in selected(run_file)]


def _show(args: argparse.Namespace) -> int:
    from core_rl.config.load import load
    from core_rl.config.show import to_dict, to_yaml

    loaded = load(args.file, args.overrides)
    if args.explain:
        return _explain(loaded.run_file, as_json=args.json)
    if args.json:
        print(json.dumps(to_dict(loaded.run_file), indent=2, ensure_ascii=False))
    else:
        print(to_yaml(loaded.run_file, origins=loaded.origins if args.origin else None), end="")
    return 0


def _explain(run_file: RunFile, *, as_json: bool) -> int:
    from core_rl.cli.explain import print_parts
    from core_rl.config.explain import as_records, explain

    parts = explain(run_file)
    if as_json:
        print(json.dumps(as_records(parts), indent=2, ensure_ascii=False))
    else:
        print_parts(parts)
    return 0


def _schema(args: argparse.Namespace) -> int:
    if args.json:
        from core_rl.config.schema import json_schema
        from core_rl.plugins.catalogue import Catalogue

        print(json.dumps(json_schema(Catalogue.discover()), indent=2, ensure_ascii=False))
        return 0
    from core_rl.config.options import options_of
    from core_rl.config.run_file import RunFile

    rows = [(one.key, one.type, "required" if one.default is None else one.default, one.help) for one in options_of(RunFile)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, (*widths, 0), strict=True)))
    print("\nThe options of a component: core-rl plugins show NAME", file=sys.stderr)
    return 0
