"""SGLang itself on a CPU: in an environment of its own (`scripts/setup_engine_env.py sglang`), with what it needs there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[4]
PYTHON = ROOT / ".venv-sglang" / "bin" / "python"
REAL = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not PYTHON.exists(), reason="no environment with sglang: scripts/setup_engine_env.py sglang"),
]
ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).parent / "cpu"), "HF_HUB_OFFLINE": "1", "SGLANG_USE_CPU_ENGINE": "1"}


def options(**args: Any) -> dict[str, Any]:
    """Of the engine, with more of SGLang's own."""
    own = {
        "device": "cpu",
        "attention_backend": "torch_native",
        "disable_overlap_schedule": True,
        "disable_cuda_graph": True,
        "max_total_tokens": 65536,
        "mem_fraction_static": 0.3,
        "skip_server_warmup": True,
    }
    cores = "|".join(str(core) for core in range(args.get("tp_size", 1)))
    environment = {**ENVIRONMENT, "SGLANG_CPU_OMP_THREADS_BIND": cores if "|" in cores else "0-1"}
    return {"args": {**own, **args}, "env": environment, "python": str(PYTHON)}
