"""The files of the logger `jsonl`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from core_rl.builtin.config import JsonlConfig
from core_rl.builtin.jsonl import Jsonl
from core_rl.roles.parts import RunInfo


def started(folder, *, resumed_from=None, **options):
    logger = Jsonl(JsonlConfig(**options))
    logger.start(RunInfo(name="r", dir=folder, config={}, resumed_from=resumed_from))
    return logger


def refuse(constant):
    raise AssertionError(constant)


def rows(path):
    return [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("fsync", [False, True])
def test_a_row_for_each_step_and_each_completion(tmp_path, fsync):
    """Both splits of one step share a file; a row is there as soon as it was logged."""
    logger = started(tmp_path, fsync=fsync)
    logger.log(1, {"reward/mean": 0.5, "count": np.float32(2)})
    logger.log_samples(1, [{"split": "train", "completion": "ä\n"}])
    logger.log_samples(1, [{"split": "eval", "answer": np.int64(3)}])
    before_the_end = rows(tmp_path / "metrics.jsonl")
    logger.finish("done")

    assert [(row["step"], row["reward/mean"], row["count"]) for row in before_the_end] == [(1, 0.5, 2.0)]
    assert before_the_end[0]["time"] > 1.7e9
    assert rows(tmp_path / "samples" / "step-000001.jsonl") == [
        {"step": 1, "split": "train", "completion": "ä\n"},
        {"step": 1, "split": "eval", "answer": 3},
    ]


def test_floats_that_are_not_finite(tmp_path):
    """Strict JSON has none: null, and which it was beside it."""
    logger = started(tmp_path)
    logger.log(1, {"loss": float("nan"), "grad": float("-inf"), "fine": 1.0})
    logger.log_samples(1, [{"reward": float("inf"), "rewards": {"a": float("nan")}, "list": [float("nan"), 1]}])
    [row] = rows(tmp_path / "metrics.jsonl")

    assert (row["loss"], row["grad"], row["fine"]) == (None, None, 1.0)
    assert row["nonfinite"] == {"loss": "nan", "grad": "-inf"}
    assert rows(tmp_path / "samples" / "step-000001.jsonl") == [
        {"step": 1, "reward": None, "rewards": {"a": None}, "list": [None, 1]}
    ]
    logger.finish("done")


def test_whatever_stands_in_a_sample_can_be_written(tmp_path):
    """Objects become text, broken characters are written out."""
    logger = started(tmp_path)
    logger.log_samples(1, [{"answer": {1: {"x"}}, "completion": "a\ud800b", "flag": True, "none": None}])
    logger.finish("done")

    assert rows(tmp_path / "samples" / "step-000001.jsonl") == [
        {"step": 1, "answer": {"1": "{'x'}"}, "completion": "a\\ud800b", "flag": True, "none": None}
    ]


def test_a_resumed_run_repeats_no_row(tmp_path):
    """Rows and samples after the resumed step go, and so does a line that a crash cut short."""
    logger = started(tmp_path)
    for step in range(6):
        logger.log(step, {"x": float(step)})
        logger.log_samples(step, [{"id": "a"}])
    logger.finish("failed")
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 6, "x":')
    (tmp_path / "samples" / "notes.jsonl").write_text("mine")
    logger = started(tmp_path, resumed_from=3)
    logger.log(4, {"x": 40.0})
    logger.finish("done")

    assert [(row["step"], row["x"]) for row in rows(tmp_path / "metrics.jsonl")] == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 40)]
    assert sorted(path.name for path in (tmp_path / "samples").iterdir()) == ["notes.jsonl"] + [
        f"step-{step:06d}.jsonl" for step in range(4)
    ]


def test_resuming_where_nothing_was_logged(tmp_path):
    """The logger was added later: it begins here."""
    logger = started(tmp_path, resumed_from=3)
    logger.log(4, {"x": 1.0})
    logger.finish("failed")

    assert [row["step"] for row in rows(tmp_path / "metrics.jsonl")] == [4]


def test_a_killed_process_loses_no_row(tmp_path):
    """Every row was handed over before the next step began."""
    code = (
        "import os, signal, sys; from pathlib import Path; from core_rl.builtin.config import JsonlConfig\n"
        "from core_rl.builtin.jsonl import Jsonl; from core_rl.roles.parts import RunInfo\n"
        "j = Jsonl(JsonlConfig()); j.start(RunInfo(name='r', dir=Path(sys.argv[1]), config={}))\n"
        "[j.log(step, {'x': 1.0}) for step in range(100)]; os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], timeout=30, check=False, env=dict(os.environ))

    assert done.returncode == -signal.SIGKILL
    assert len(rows(tmp_path / "metrics.jsonl")) == 100
