"""Run as `python -m core_rl.doctor.probe`: really imports what plugins name. A process of its own, since an import may crash or hang.

Reads a JSON list of jobs from standard input. Writes one JSON line when a job begins and one when it is done, and one about torch.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from core_rl.errors import PluginError
from core_rl.plugins.references import load_reference


def main() -> int:
    """Do the jobs in order. What libraries print goes to standard error, so that the lines stay clean."""
    jobs = json.load(sys.stdin)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as lines:
        os.dup2(2, 1)
        for job in jobs:
            _say(lines, {"begin": job["plugin"]})
            facts = torch_facts() if job["plugin"] == "torch" else _try_plugin(job)
            _say(lines, {"done": job["plugin"], **facts})
    return 0


def _say(lines: TextIO, row: Mapping[str, Any]) -> None:
    print(json.dumps(row, default=str), file=lines, flush=True)


def _try_plugin(job: Mapping[str, Any]) -> dict[str, Any]:
    """Import every target of a plugin, and ask the plugin for its facts."""
    errors = {}
    for target in job["targets"]:
        try:
            load_reference(target)
        except PluginError as error:
            errors[target] = str(error)
    try:
        describe = getattr(importlib.import_module(job["module"]), "core_rl_describe", None)
        return {"errors": errors, "facts": dict(describe()) if describe else {}}
    except Exception as error:  # noqa: BLE001 - a plugin's own code: what it raises is reported as a fact about it
        return {"errors": {**errors, "core_rl_describe": f"{type(error).__name__}: {error}"}, "facts": {}}


def torch_facts() -> dict[str, Any]:
    """Version, threads and devices of torch, or why it cannot be imported."""
    try:
        import torch
    except Exception as error:  # noqa: BLE001 - a broken build raises nearly anything: OSError, RuntimeError, ...
        return {"error": f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"}
    return {
        "version": torch.__version__,
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "cpu_bf16": _cpu_bf16(),
        "cuda_build": torch.version.cuda,
        "gpus": _gpus(),
    }


def _gpus() -> list[dict[str, Any]]:
    import torch

    gpus = []
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        free, total = torch.cuda.mem_get_info(index)
        major, minor = torch.cuda.get_device_capability(index)
        name = torch.cuda.get_device_name(index)
        gpus.append({"name": name, "total": total, "free": free, "capability": f"{major}.{minor}", "bf16": major >= 8})
    return gpus


def _cpu_bf16() -> bool | None:
    """Whether the CPU computes in bfloat16 itself; without that it is slower than float32. None: not known here."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return None
    return "avx512_bf16" in text or "amx_bf16" in text or "bf16" in text.partition("Features")[2].partition("\n")[0]


if __name__ == "__main__":
    sys.exit(main())
