"""Advantages, losses and rejections on a batch of a million tokens: core-rl's packed functions and verl's padded ones.

Both sides compute the same named thing on the same numbers, in turn, each in its own environment; and core-rl on a half and a quarter of
the batch, to see that its time is linear in the tokens. Run it on an otherwise idle machine; see README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import _machine
from _cases import HERE
from _peer_env import VERL

RESULTS = HERE / "results"
Seconds = dict[str, list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=4096)
    parser.add_argument("--mean-length", type=int, default=244, help="tokens; padded rows are twice as wide")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side")
    parser.add_argument("--repeats", type=int, default=3, help="runs in a turn")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", help="the functions whose name has this in it")
    parser.add_argument("--dry-run", action="store_true", help="print, and leave the files in results/ as they are")
    args = parser.parse_args()
    sides = {"core_rl": (Path(sys.executable), "_numerics_core.py"), "verl": (VERL.ensure(), "_numerics_verl.py")}
    seconds: dict[str, Seconds] = {"core_rl": {}, "verl": {}, "half": {}, "quarter": {}}
    for _ in range(args.rounds):
        for name, (python, script) in sides.items():
            add(seconds[name], run(python, script, args, args.sequences))
        for name, part in (("half", 2), ("quarter", 4)):
            add(seconds[name], run(*sides["core_rl"], args, args.sequences // part))
    report = {
        "machine": _machine.describe(args.threads),
        "core_rl": _machine.versions(),
        "verl": VERL.versions(),
        "sequences": args.sequences,
        "mean_length": args.mean_length,
        "runs": args.rounds * args.repeats,
        "rows": [row(name, seconds) for name in seconds["core_rl"]],
    }
    print(table(report))
    if not args.dry_run:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "numerics.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        (RESULTS / "numerics.md").write_text(table(report), encoding="utf-8")


def run(python: Path, script: str, args: argparse.Namespace, sequences: int) -> Seconds:
    command = [str(python), str(HERE / script), "--sequences", str(sequences)]
    command += ["--mean-length", str(args.mean_length), "--repeats", str(args.repeats), "--threads", str(args.threads)]
    command += ["--only", args.only] if args.only else []
    environment = {**os.environ, "OMP_NUM_THREADS": str(args.threads)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {name: values for one in rows for name, values in one.items()}


def add(total: Seconds, more: Seconds) -> None:
    for name, values in more.items():
        total.setdefault(name, []).extend(values)


def row(name: str, seconds: dict[str, Seconds]) -> dict[str, Any]:
    """Medians in milliseconds; `growth` is the time of the whole batch over that of a quarter (4 where it is linear)."""
    medians = {side: 1e3 * statistics.median(found[name]) for side, found in seconds.items()}
    return {
        "name": name,
        "core_rl_ms": medians["core_rl"],
        "verl_ms": medians["verl"],
        "ratio": medians["verl"] / medians["core_rl"],
        "growth_half": medians["core_rl"] / medians["half"],
        "growth_quarter": medians["core_rl"] / medians["quarter"],
    }


def table(report: dict[str, Any]) -> str:
    """The same as Markdown."""
    versions = f"core-rl {report['core_rl']['core-rl']}, verl {report['verl']['verl']}, torch {report['core_rl']['torch']}"
    size = f"{report['sequences']} sequences of {report['mean_length']} tokens in the mean, rows half full"
    runs = f"Medians of {report['runs']} runs of each side, taken in turn; losses with their gradient"
    lines = [
        "# Numerics: core-rl and verl",
        "",
        f"{size}. {versions}. {report['machine']['text']}.",
        f"{runs}. The last columns: time over that of half and of a quarter of the batch.",
        "",
        "| function | core-rl ms | verl ms | verl / core-rl | x2 tokens | x4 tokens |",
        "|---|---|---|---|---|---|",
        *(
            f"| {one['name']} | {one['core_rl_ms']:.1f} | {one['verl_ms']:.1f} | {one['ratio']:.2f} | {one['growth_half']:.2f} | "
            f"{one['growth_quarter']:.2f} |"
            for one in report["rows"]
        ),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
