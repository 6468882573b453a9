"""Both sides of the comparison: a process each, which gives the seconds of every step it made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from _cases import HERE, Case
from _peer_env import TRL

Steps = list[dict[str, float]]


def core_rl(case: Case, *, model: str, prompts: Path, steps: int, threads: int, scratch: Path) -> Steps:
    """Steps of `core-rl train`, out of its metrics.jsonl."""
    folder = Path(tempfile.mkdtemp(dir=scratch))
    file = folder / "run.yaml"
    file.write_text(yaml.safe_dump(case.run_file(model=model, prompts=prompts, steps=steps, dir=folder)), encoding="utf-8")
    _quiet([sys.executable, "-m", "core_rl", "train", str(file)], threads)
    metrics = next(folder.rglob("metrics.jsonl")).read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, metrics) if "time/step" in row]
    return [
        {
            "step": row["time/step"],
            "rollout": row["time/rollout"],
            "train": row["time/step"] - row["time/rollout"],
            "loop": row["time/step"] - sum(row.get(f"time/{phase}", 0.0) for phase in ("rollout", "logprob", "train", "sync")),
        }
        for row in rows
    ]


def trl(case: Case, *, model: str, prompts: Path, steps: int, threads: int, scratch: Path) -> Steps:
    """Steps of TRL's GRPOTrainer, as `_trl_step.py` prints them."""
    options = {
        "model": model,
        "prompts": prompts,
        "group-size": case.group_size,
        "new-tokens": case.new_tokens,
        "micro-batch": case.micro_batch,
        "steps": steps,
        "threads": threads,
        "scratch": scratch,
    }
    flags = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    output = _quiet([str(TRL.ensure()), str(HERE / "_trl_step.py"), *flags], threads)
    return [json.loads(line) for line in output.splitlines() if line.startswith('{"step"')]


def _quiet(command: list[str], threads: int) -> str:
    """Run it; its output is shown only when it fails."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}\n{done.stderr}\n{command[1]} failed")
    return done.stdout
