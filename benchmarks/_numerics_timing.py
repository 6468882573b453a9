"""Both sides of numerics.py: time named calls and print the seconds as JSON."""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable, Mapping

import torch


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sequences", type=int, required=True)
    parser.add_argument("--mean-length", type=int, required=True)
    parser.add_argument("--repeats", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--only", default=None)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    return args


def report(calls: Mapping[str, Callable[[], object]], args: argparse.Namespace) -> None:
    """One line for each call: {name: [seconds, …]}, after a first run that does not count."""
    for name, call in calls.items():
        if args.only and args.only not in name:
            continue
        seconds = []
        for _ in range(args.repeats + 1):
            gc.collect()
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
        print(json.dumps({name: seconds[1:]}), flush=True)
