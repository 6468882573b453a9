"""Facts about where a run happens: machine, packages, source. Each is quick, and a missing one is left out."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

_TIMEOUT_S = 3.0


def machine() -> dict[str, Any]:
    """Processor, cores, memory and GPUs; no name and no address."""
    import psutil

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": _cpu_model(),
        "cores": cores,
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "gpus": _gpus(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def packages() -> dict[str, str]:
    """Every installed distribution and its version."""
    found = {str(one.metadata["Name"]): one.version for one in importlib.metadata.distributions()}
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def git(folder: Path) -> dict[str, Any] | None:
    """The commit that a folder stands at, and whether tracked files differ from it; None outside a repository."""
    commit = _output("git", "-C", str(folder), "rev-parse", "HEAD")
    if not commit:
        return None
    return {"commit": commit, "dirty": bool(_output("git", "-C", str(folder), "status", "--porcelain", "--untracked-files=no"))}


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def _gpus() -> list[str]:
    """By nvidia-smi: asking torch would claim memory on each of them."""
    listed = _output("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")
    return listed.splitlines() if listed else []


def _output(*command: str) -> str | None:
    """What a program prints; None when it is not there, fails or takes too long."""
    program = shutil.which(command[0])
    if program is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 - fixed commands
            [program, *command[1:]], capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
