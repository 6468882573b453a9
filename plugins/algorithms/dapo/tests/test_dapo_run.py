"""A real run of a few steps: groups are sampled again, and the log speaks of all that was sampled."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
STEPS = 4


def train(folder, *arguments):
    command = [sys.executable, "-m", "core_rl", "train", "examples/tiny.yaml", f"run.dir={folder}", f"run.steps={STEPS}"]
    command += ["run.prompts_per_step=4", "algorithm={name: dapo, group_size: 3}", "eval.every=0"]
    command += ["checkpoint={every: 3, at_end: false, export_hf: false}"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    run = next(path for path in (folder / "tiny").iterdir() if path.is_dir() and not path.is_symlink())
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return run, {row["step"]: row for row in rows}


def test_a_real_run_samples_until_its_batch_is_full(tmp_path):
    """Groups of three random answers are mostly equal: several rounds, a full batch of groups that differ, rewards of all of them."""
    _, rows = train(tmp_path)
    last = rows[STEPS]

    assert sorted(rows) == [1, 2, 3, 4]
    assert max(row["refill/rounds"] for row in rows.values()) > 1
    assert last["batch/sequences"] == 12
    assert last["batch/rejected_frac"] == 0.0
    assert last["refill/kept_frac"] < 1.0
    assert last["reward/zero_std_frac"] > 0.0
    assert "reward/overlong/mean" in last
    sampled = sum(row["refill/sampled_groups"] for row in rows.values())
    assert last["data/epoch"] * 80 == pytest.approx(sampled)  # the 80 prompts of examples/data that are not held out


def test_a_resumed_run_samples_the_same_rounds(tmp_path):
    """From the checkpoint of step 3, step 4 has the metrics that it had: the prompts that refilling used up are known."""
    run, before = train(tmp_path)
    _, after = train(tmp_path, "--resume", str(run))
    clocks = re.compile(r"time|perf/|rollout/\w+_s$")
    first, second = (
        {name: value for name, value in rows[STEPS].items() if not clocks.search(name)} for rows in (before, after)
    )

    assert sorted(after) == [1, 2, 3, 4]
    assert second == first
