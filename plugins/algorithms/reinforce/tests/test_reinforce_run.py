"""Real runs of a few steps: what only the loop can show of ReMax and PF-PPO."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]


def train(folder, algorithm):
    command = [sys.executable, "-m", "core_rl", "train", "examples/tiny.yaml", f"run.dir={folder}", "run.steps=2"]
    command += [
        "run.prompts_per_step=4",
        f"algorithm={algorithm}",
        "eval.every=0",
        "checkpoint={at_end: false, export_hf: false}",
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    run = next(path for path in (folder / "tiny").iterdir() if path.is_dir() and not path.is_symlink())
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def test_the_greedy_completion_is_not_trained_on(tmp_path):
    """Three samples of four prompts are in the batch, and a greedy one of each beside them decides the advantages."""
    rows = train(tmp_path, "{name: remax, group_size: 3}")

    assert [row["batch/sequences"] for row in rows] == [12.0, 12.0]
    assert all(row["optim/steps"] == 1 for row in rows)
    assert any(row["advantage/min"] != row["advantage/max"] for row in rows)


RESAMPLED = "resampler: {name: pf_ppo, weights: max_min}"


@pytest.mark.parametrize("algorithm", [f"{{name: grpo, group_size: 5, {RESAMPLED}}}", f"{{name: pf_ppo, {RESAMPLED}}}"])
def test_drawn_samples_fill_the_batch(tmp_path, algorithm):
    """As many as were sampled, some of them twice; a critic learns from the same."""
    rows = train(tmp_path, algorithm)

    assert [row["batch/sequences"] for row in rows] == [20.0, 20.0]
    assert all(0 < row["batch/resampled_frac"] < 1 for row in rows)
    assert all(("critic/loss" in row) == ("pf_ppo, resampler" in algorithm) for row in rows)
