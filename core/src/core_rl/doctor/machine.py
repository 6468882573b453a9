"""What this machine has: Python, cores, memory, disk, and the environment variables that change a run. Torch-free."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path

import attrs
import psutil

from core_rl import __version__

VARIABLES = {
    "OMP_NUM_THREADS": "threads of torch on the CPU",
    "CUDA_VISIBLE_DEVICES": "the GPUs that can be seen",
    "HF_HUB_OFFLINE": "1: nothing is downloaded",
    "HF_HOME": "where downloaded models are kept",
    "CORE_RL_CACHE": "where converted models are kept",
    "CORE_RL_PLUGINS_ALLOW": "only these plugins are seen",
    "CORE_RL_PLUGINS_BLOCK": "these plugins are not seen",
}
_CGROUP = Path("/sys/fs/cgroup")


@attrs.frozen(kw_only=True)
class Machine:
    """Facts, in bytes where they are sizes. `notes` are what a person should know about them."""

    core_rl: str
    python: str
    platform: str
    cores: int
    memory_total: int
    memory_available: int
    disk_path: str
    disk_free: int
    variables: Mapping[str, str]
    notes: tuple[str, ...]


def machine(runs: Path) -> Machine:
    """The facts; the disk is the one on which `runs` is or would be."""
    memory = psutil.virtual_memory()
    limit = _memory_limit() or memory.total
    place = existing_parent(runs)
    cores = usable_cores()
    variables = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    return Machine(
        core_rl=__version__,
        python=platform.python_version(),
        platform=platform.platform(terse=True),
        cores=cores,
        memory_total=min(memory.total, limit),
        memory_available=min(memory.available, limit),
        disk_path=str(place),
        disk_free=shutil.disk_usage(place).free,
        variables=variables,
        notes=tuple(_notes(cores, variables)),
    )


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def existing_parent(path: Path) -> Path:
    """The folder itself, or the nearest one above it that is there."""
    path = path.expanduser().absolute()
    return next(place for place in (path, *path.parents) if place.is_dir())


def gigabytes(size: float) -> str:
    return f"{size / 1e9:.1f} GB"


def _notes(cores: int, variables: Mapping[str, str]) -> list[str]:
    notes = []
    threads = variables.get("OMP_NUM_THREADS", "")
    if threads.isdigit() and int(threads) > cores:
        notes.append(f"OMP_NUM_THREADS={threads} is more than the {cores} cores: torch becomes many times slower; unset it")
    quota = _cpu_quota()
    if quota is not None and quota < cores:
        notes.append(
            f"this container may use {quota:g} of the {cores} cores that it sees: set OMP_NUM_THREADS={max(1, int(quota))}"
        )
    return notes


def _cpu_quota() -> float | None:
    """Cores that the container is allowed, None without a limit."""
    quota, _, period = _read(_CGROUP / "cpu.max").partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _memory_limit() -> int | None:
    limit = _read(_CGROUP / "memory.max")
    return int(limit) if limit.isdigit() else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
