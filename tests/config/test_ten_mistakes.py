"""The promise: every mistake of a file in one go, each at its line and column."""

from __future__ import annotations

from pathlib import Path

import pytest

from core_rl.config.load import load
from core_rl.errors import ConfigError

FILE = Path(__file__).parent / "ten_mistakes.yaml"

EXPECTED = [
    ("3:3", "run.sede", "unknown key of `run`; did you mean `seed`?"),
    ("4:10", "run.steps", "expected an integer, found 1.5"),
    ("5:22", "run.on_reward_failure", "expected one of drop, zero, stop, found text 'ignore'"),
    (
        "6:15",
        "model.path",
        "environment variable CORE_RL_TEST_NO_SUCH_VARIABLE is not set; ${CORE_RL_TEST_NO_SUCH_VARIABLE:-default} would",
    ),
    ("7:1", "data.path", "this key is required: the file with the rows"),
    ("10:9", "algorithm", "there is no algorithm 'gpro'; did you mean"),
    ("12:10", "sampling.top_p", "must be <= 1.0, found 1.5"),
    ("14:3", "sampling.temperature", "the key `temperature` is given twice; the first is at ten_mistakes.yaml:13:3"),
    ("15:31", "rollout_engine.tensor_parallel", "unknown option of rollout_engine `local`, which has no options"),
    ("16:10", "loggers", "expected a list of logger components, found text 'console' (write [console])"),
]


def test_all_ten_are_told_each_at_its_place(catalogue, monkeypatch):
    """Ten kinds of mistake, and nothing hides behind anything else."""
    monkeypatch.chdir(FILE.parent)
    with pytest.raises(ConfigError) as caught:
        load(FILE.name, catalogue=catalogue)
    found = caught.value.problems

    assert [(one.where, one.path) for one in found] == [(f"ten_mistakes.yaml:{place}", path) for place, path, _ in EXPECTED]
    for problem, (_, _, message) in zip(found, EXPECTED, strict=True):
        assert problem.message.startswith(message)


def test_each_place_is_where_the_mistake_stands(catalogue, monkeypatch):
    """Line and column, counted from 1, point at the first character of the key or value that is meant."""
    monkeypatch.chdir(FILE.parent)
    lines = FILE.read_text(encoding="utf-8").splitlines()
    with pytest.raises(ConfigError) as caught:
        load(FILE.name, catalogue=catalogue)
    places = [tuple(map(int, problem.where.split(":")[1:])) for problem in caught.value.problems]
    starts = [lines[line - 1][column - 1 :].split(",")[0].rstrip("}") for line, column in places]

    assert starts == [
        "sede: 7",
        "1.5",
        "ignore",
        '"${CORE_RL_TEST_NO_SUCH_VARIABLE}"',
        "data:",
        "gpro",
        "1.5",
        "temperature: 0.8",
        "tensor_parallel: 2",
        "console",
    ]
