"""What the figures were measured on, and how fast it is by itself."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import torch


def describe(threads: int) -> dict[str, Any]:
    """Facts of the machine, and the same as a sentence."""
    memory = psutil.virtual_memory().total / 2**30
    facts = {"cpu": _cpu(), "cores": len(os.sched_getaffinity(0)), "memory_gib": round(memory, 1), "threads": threads}
    text = f"{facts['cpu']}, {facts['cores']} cores, {memory:.0f} GiB, {threads} threads, Python {platform.python_version()}"
    return {**facts, "python": platform.python_version(), "text": text}


def versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in ("core-rl", "torch", "transformers")}


def best_seconds(call: Callable[[], object], *, repeats: int) -> float:
    """The shortest of several runs after a first one: what the machine can do when nothing disturbs it."""
    call()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def matmul_gflops(size: int = 2048) -> float:
    """Rate of a float32 matrix product."""
    left, right, out = torch.randn(size, size), torch.randn(size, size), torch.empty(size, size)
    return 2 * size**3 / best_seconds(lambda: torch.mm(left, right, out=out), repeats=8) / 1e9


def copy_gbytes(megabytes: int = 512) -> float:
    """Rate of a memory copy, bytes read and bytes written together."""
    source = torch.ones(megabytes * 2**20 // 4)
    target = torch.empty_like(source)
    return 2 * source.nbytes / best_seconds(lambda: target.copy_(source), repeats=8) / 1e9


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
