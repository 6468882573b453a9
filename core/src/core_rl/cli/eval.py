"""`core-rl eval`: held-out reward of a run's checkpoint, or of a run file's model before any training."""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", type=Path, help="a run folder, or a run file (YAML) for the model as it starts")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="changes, such as eval.prompts=200 eval.n=4")
    parser.add_argument("--step", type=int, help="the checkpoint of this step; the newest good one without it")
    parser.add_argument("--json", action="store_true", help="print the metrics as one JSON object")
    parser.add_argument("--samples", type=int, default=5, metavar="N", help="completions to show (default 5)")


def run(args: argparse.Namespace) -> int:
    from core_rl.loops.inspect import evaluate_target

    metrics, rows = evaluate_target(args.target, args.overrides, step=args.step)
    if args.json:
        print(json.dumps(metrics, indent=2, sort_keys=True))
        return 0
    for row in rows[: args.samples]:
        print(f"--- {row['id']}  reward {row['reward']}  ({row['finish_reason']}, {row['tokens']} tokens)")
        print(f"{row['prompt']}\n>>> {row['completion']}")
    for name, value in metrics.items():
        print(f"{name:40} {value:.4f}")
    return 0
