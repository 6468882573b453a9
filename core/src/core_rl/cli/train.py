"""`core-rl train FILE`: run a training to its end, or go on with one."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="the run file (YAML)")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="changes, such as train_engine.lr=1e-5")
    parser.add_argument(
        "--resume",
        nargs="?",
        const="latest",
        metavar="RUN_DIR",
        help="go on from the newest good checkpoint of this run folder, or of the newest run of this name",
    )


def run(args: argparse.Namespace) -> int:
    from core_rl.errors import UserError
    from core_rl.loops.run import train

    if args.resume is not None and "=" in args.resume:
        message = f"--resume takes a run folder, found {args.resume!r}; write the override before --resume"
        raise UserError(message)
    return train(args.file, args.overrides, resume=args.resume)
