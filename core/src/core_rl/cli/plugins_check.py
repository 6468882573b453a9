"""`core-rl plugins check`: what is wrong with a plugin, and what its components do against their contracts."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from core_rl.errors import PluginError, UserError
from core_rl.plugins.catalogue import owned_by

if TYPE_CHECKING:
    from core_rl.plugins.catalogue import Catalogue
    from core_rl.plugins.conformance import Row
    from core_rl.plugins.loading import Plugin

_WORDS = {"ok": "ok", "failed": "FAILED", "not judged": "-", "not run": "-"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="a distribution or entry-point name")
    parser.add_argument(
        "--options",
        metavar="YAML",
        default="{}",
        help="options by component, for those without defaults: '{myidea: {clip: 0.3}}'; kind/name where two have one name",
    )
    parser.add_argument("--engines", action="store_true", help="also engines and launchers, which start processes (minutes)")
    parser.add_argument("--timeout", type=float, default=300.0, metavar="S", help="seconds for each check (300)")
    parser.add_argument("--json", action="store_true", help="for programs")


def run(args: argparse.Namespace, catalogue: Catalogue) -> int:
    """1 when something is wrong, 0 otherwise."""
    found = [f"{row.plugin}: {row.reason}" for row in catalogue.broken if owned_by(row, args.name)]
    plugins = [plugin for plugin in catalogue.plugins if owned_by(plugin, args.name)]
    if not found and not plugins:
        from core_rl.plugins.missing import why_no_plugin

        raise PluginError(why_no_plugin(catalogue, args.name))
    from core_rl.plugins.conformance import HUNG, check_names

    if not args.timeout > 0:
        message = f"--timeout: expected seconds above 0, found {args.timeout:g}"
        raise UserError(message)
    options = _options(args.options)
    check_names(plugins, options)
    rows: list[Row] = []
    # what a component prints while it is checked is no part of the report
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        found += _findings(plugins, None if args.json else out, found)
        for plugin in plugins:
            rows += _rows(plugin, options, found, args, None if args.json else out)
    if args.json:
        checks = [attrs.asdict(row) for row in rows]
        print(json.dumps({"plugins": [plugin.title for plugin in plugins], "findings": found, "checks": checks}, indent=2))
    else:
        _summary(plugins, found, rows)
    code = 1 if found or any(row.status == "failed" for row in rows) else 0
    if any(row.reason == HUNG for row in rows):  # a thread of the component may still hang, and Python would wait for it
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _findings(plugins: list[Plugin], out: Any, broken: list[str]) -> list[str]:
    from core_rl.plugins.check import findings

    found = [f"{plugin.title}: {text}" for plugin in plugins for text in findings(plugin)]
    if out is not None:
        for text in (*broken, *found):
            print(text, file=out)
    return found


def _rows(plugin: Plugin, options: Mapping[str, Any], found: list[str], args: argparse.Namespace, out: Any) -> list[Row]:
    from core_rl.plugins.conformance import conformance

    wrong = frozenset(
        (kind, component.name)
        for kind, component in plugin.components
        if any(text.startswith(f"{plugin.title}: {kind} {component.name}: ") for text in found)
    )
    rows: list[Row] = []
    for row in conformance(plugin, options, engines=args.engines, leave_out=wrong, limit_s=args.timeout):
        if out is not None:
            before = rows[-1] if rows else None
            if before is None or (before.kind, before.component) != (row.kind, row.component):
                print(f"\n{row.kind} {row.component}", file=out)
            print(_line(row), file=out, flush=True)
        rows.append(row)
    return rows


def _line(row: Row) -> str:
    words = row.check or row.status
    reason = " ".join((row.reason or row.about).split())
    return f"  {_WORDS[row.status]:<7} {words}" + (f": {reason}" if reason else "")


def _summary(plugins: list[Plugin], found: list[str], rows: list[Row]) -> None:
    from core_rl.plugins.conformance import HUNG

    if not plugins:
        return
    names = ", ".join(plugin.title for plugin in plugins)
    counts = Counter(row.status for row in rows)
    parts = [f"{counts[status]} {status}" for status in ("ok", "failed", "not judged") if counts[status]]
    components = len({(row.plugin, row.kind, row.component) for row in rows})
    not_run = sum(row.status == "not run" and row.reason != HUNG for row in rows)
    if not_run:
        parts.append(f"{not_run} of {components} components not run")
    wrong = len(found) + counts["failed"]
    verdict = f"{wrong} mistakes in {components} components" if wrong else f"nothing wrong with {components} components"
    print(f"\n{names}: {verdict}; checks: {', '.join(parts) or 'none'}")


def _options(text: str) -> Mapping[str, Any]:
    import yaml

    try:
        options = yaml.safe_load(text)
    except yaml.YAMLError as error:
        message = f"--options: {' '.join(str(error).split())}; expected YAML, as {{myidea: {{clip: 0.3}}}}"
        raise UserError(message) from error
    if not isinstance(options, Mapping):
        message = f"--options: expected a mapping of components to options, as {{myidea: {{clip: 0.3}}}}, found {text!r}"
        raise UserError(message)
    return options
