"""`core-rl doctor [FILE]`: what works on this machine and why not; with a run file, whether that one can run here."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core_rl.doctor.machine import Machine
    from core_rl.doctor.plugins import PluginReport
    from core_rl.doctor.run_file import Finding

Rows = list[tuple[str, str]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", type=Path, help="a run file: also check whether it can run here")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="changes, such as model.path=...")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where runs go, whose disk is looked at")
    parser.add_argument("--json", action="store_true", help="for programs")


def run(args: argparse.Namespace) -> int:
    """0, or 1 when what the run file needs does not work here. A broken plugin that nobody selected is only shown."""
    import attrs

    from core_rl.doctor.machine import machine
    from core_rl.doctor.plugins import examine
    from core_rl.doctor.run_file import examine_run_file
    from core_rl.plugins.catalogue import Catalogue

    host = machine(args.runs)
    plugins, torch = examine(Catalogue.discover())
    findings = examine_run_file(args.file, args.overrides, machine=host, plugins=plugins, torch=torch) if args.file else []
    if args.json:
        document = {
            "machine": attrs.asdict(host),
            "torch": torch,
            "plugins": [attrs.asdict(report) for report in plugins],
            "run_file": [attrs.asdict(finding) for finding in findings],
        }
        print(json.dumps(document, indent=2, default=str))
    else:
        _print(host, torch, plugins, findings)
    return 1 if any(finding.problem for finding in findings) else 0


def _print(host: Machine, torch: Mapping[str, Any], plugins: Sequence[PluginReport], findings: Sequence[Finding]) -> None:
    from core_rl.cli.tables import print_table

    print_table("Machine", ("WHAT", "FOUND"), _machine_rows(host) + _torch_rows(torch))
    working = sum(report.state == "works" for report in plugins)
    rows = [(report.state, f"{report.plugin} {report.version or ''}".strip(), _plugin_text(report)) for report in plugins]
    print_table(f"\n{working} of {len(plugins)} plugins work here", ("STATE", "PLUGIN", "WHY"), rows)
    libraries = _library_rows(plugins)
    if libraries:
        print_table("\nBackends", ("NEEDED", "FOUND"), libraries)
    if findings:
        problems = sum(finding.problem for finding in findings)
        title = f"{problems} problem{'s' if problems > 1 else ''}" if problems else "it can run here"
        print_table(
            f"\nRun file: {title}",
            ("", "WHAT", "FOUND"),
            [("!!" if finding.problem else "ok", finding.what, finding.text) for finding in findings],
        )


def _machine_rows(host: Machine) -> Rows:
    from core_rl.doctor.machine import VARIABLES, gigabytes

    return [
        ("core-rl", host.core_rl),
        ("Python", f"{host.python} on {host.platform}"),
        ("cores", str(host.cores)),
        ("memory", f"{gigabytes(host.memory_available)} free of {gigabytes(host.memory_total)}"),
        ("disk", f"{gigabytes(host.disk_free)} free at {host.disk_path}"),
        *[(name, f"{value} ({VARIABLES[name]})") for name, value in host.variables.items()],
        *[("note", note) for note in host.notes],
    ]


def _torch_rows(torch: Mapping[str, Any]) -> Rows:
    from core_rl.doctor.machine import gigabytes

    problem = torch.get("error") or torch.get("crash")
    if problem:
        return [("torch", f"cannot be imported: {problem}; pip install 'core-rl[local]'")]
    bf16 = {True: "", False: ", no bfloat16 of its own: float32 is faster", None: ""}[torch["cpu_bf16"]]
    rows = [
        ("torch", f"{torch['version']}, {torch['threads']} threads"),
        ("CPU", f"{torch['cpu_capability']}{bf16}"),
    ]
    for gpu in torch["gpus"]:
        bf16 = "bfloat16" if gpu["bf16"] else "no bfloat16: use float16"
        rows.append(("GPU", f"{gpu['name']}, {gigabytes(gpu['free'])} free of {gigabytes(gpu['total'])}, {bf16}"))
    if not torch["gpus"]:
        build = (
            f"although torch is built for CUDA {torch['cuda_build']}" if torch["cuda_build"] else "this torch is a CPU build"
        )
        rows.append(("GPU", f"none that torch can use ({build})"))
    return rows


def _plugin_text(report: PluginReport) -> str:
    if report.state == "works":
        facts = ", ".join(f"{name} {value}" for name, value in report.facts.items())
        return ", ".join(report.components) + (f" ({facts})" if facts else "")
    return f"{report.reason}{': ' if report.mend else ''}{report.mend}"


def _library_rows(plugins: Sequence[PluginReport]) -> Rows:
    """Each backend requirement once, over all plugins."""
    needed = {one.requirement: one.found or "not installed" for report in plugins for one in report.backend}
    return sorted(needed.items())
