"""A run whose train engine is two FSDP workers: it learns as usual, a killed worker ends it with the cause, and it goes on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
ARGUMENTS = [
    "train",
    "examples/tiny.yaml",
    "train_engine={name: fsdp, lr: 1e-3, device: cpu}",
    "launcher={name: local, workers: 2}",
    "weight_transport=shared_memory",
    "run.prompts_per_step=4",
    "eval.every=0",
    "loggers=[jsonl]",
    "checkpoint={every: 1}",
]


def start(folder, *more):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "core_rl", *ARGUMENTS, f"run.dir={folder}", *more]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)


def steps_of(folder) -> list[dict]:
    rows = (folder / "tiny" / "latest" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(row) for row in rows]


def workers_of(process) -> list[psutil.Process]:
    children = psutil.Process(process.pid).children(recursive=True)
    return [child for child in children if "spawn_main" in " ".join(child.cmdline())]


def test_a_run_on_two_workers_survives_a_kill(tmp_path):
    """The error names the worker and the signal within seconds, nobody is left, and --resume reaches the end."""
    run = start(tmp_path, "run.steps=1000")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not list(tmp_path.glob("tiny/*/checkpoints/step-*")):
        time.sleep(0.5)
    workers = workers_of(run)
    workers[1].send_signal(signal.SIGKILL)
    killed = time.monotonic()
    _, error = run.communicate(timeout=60)
    took = time.monotonic() - killed
    saved = max(int(re.search(r"step-(\d+)", path.name)[1]) for path in tmp_path.glob("tiny/2*/checkpoints/step-*"))

    again = start(tmp_path, f"run.steps={saved + 2}", "--resume")
    _, told = again.communicate(timeout=200)

    assert run.returncode == 2
    assert "worker 1 was killed by SIGKILL" in error
    assert "--resume" in error
    assert "Traceback" not in error
    assert took < 30
    assert not psutil.wait_procs(workers, timeout=10)[1]
    assert again.returncode == 0, told
    assert f"Resuming from step {saved}" in told
    assert [row["step"] for row in steps_of(tmp_path)][-2:] == [saved + 1, saved + 2]
    assert steps_of(tmp_path)[-1]["mismatch/abs_max"] < 1e-4


def test_roles_have_launchers_of_their_own(tmp_path):
    """The policy in the run's process, on the weights that are sampled from; its critic is FSDP on two workers."""
    arguments = [
        "train",
        "examples/algorithms/ppo.yaml",
        "run.steps=2",
        "run.prompts_per_step=16",
        f"run.dir={tmp_path}",
        "eval.every=0",
        "loggers=[jsonl]",
        "checkpoint={at_end: false, export_hf: false}",
        "algorithm.critic={train_engine: {name: fsdp, lr: 1e-3, device: cpu}, launcher: {name: local, workers: 2}}",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "core_rl", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)
    rows = [json.loads(row) for row in next(tmp_path.glob("ppo/2*/metrics.jsonl")).read_text().splitlines()]

    assert done.returncode == 0, done.stderr
    assert [row["step"] for row in rows] == [1, 2]
    assert all(row["critic/loss"] > 0 for row in rows)
