"""`core-rl report`: the report of a run, and a picture of it."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_dir", type=Path, metavar="RUN_DIR", help="the run's folder")
    parser.add_argument("--png", type=Path, metavar="FILE", help="also draw training and held-out reward (needs core-rl[plot])")


def run(args: argparse.Namespace) -> int:
    from core_rl.run.report import write_report

    print(write_report(args.run_dir))
    if args.png is not None:
        from core_rl.run.plot import plot_run

        print(plot_run(args.run_dir, args.png))
    return 0
