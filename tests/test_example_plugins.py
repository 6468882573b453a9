"""The plugins under examples/plugins, installed as an outsider's: from wheels, in a folder of their own, with their sources out of reach."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from core_rl.run.record import RunRecord, first_and_last

ROOT = Path(__file__).resolve().parent.parent
NAMES = sorted(path.parent.name for path in ROOT.glob("examples/plugins/*/pyproject.toml"))
COMPONENTS = {
    ("loss", "ce_gppo", "core-rl-example-ce-gppo"),
    ("reward", "judge", "core-rl-example-judge"),
    ("workflow", "guess", "core-rl-example-guess"),
    ("reward", "guess", "core-rl-example-guess"),
}
each = pytest.mark.parametrize("name", NAMES)


@attrs.frozen
class Site:
    """Where the three are installed, and a copy of what a user has beside them: run files, data, tests."""

    packages: Path
    projects: Path

    def run(self, *command: str, cwd: str = ".") -> str:
        environment = os.environ | {"PYTHONPATH": str(self.packages), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, *command], cwd=self.projects / cwd, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def train(self, name: str, *overrides: str) -> RunRecord:
        runs = self.projects / "runs"
        self.run("-m", "core_rl", "train", "example.yaml", f"run.dir={runs}", "run.log_samples_every=1", *overrides, cwd=name)
        return RunRecord.read((runs / name / "latest").resolve())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The environment's own packages with these beside them; the copies that tests run in have no `src`."""
    projects = tmp_path_factory.mktemp("projects")
    made = Site(packages=tmp_path_factory.mktemp("site"), projects=projects)
    for name in NAMES:
        shutil.copytree(ROOT / "examples" / "plugins" / name, projects / name, ignore=shutil.ignore_patterns("__pycache__"))
    sources = [f"./{name}" for name in NAMES]
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check", "--no-compile"]
    made.run("-m", "pip", "install", *options, "--target", str(made.packages), *sources)
    for name in NAMES:
        shutil.rmtree(projects / name / "src")
    return made


def test_they_are_listed_and_nothing_is_wrong(site: Site) -> None:
    """`plugins list` shows every component, none is broken, and `plugins check` finds nothing."""
    listed = json.loads(site.run("-m", "core_rl", "plugins", "list", "--json", "--allow", "core-rl-example-*"))
    theirs = [one for one in listed["components"] if one["plugin"] != "core-rl"]

    assert listed["broken"] == []
    assert {(one["kind"], one["name"], one["plugin"]) for one in theirs} == COMPONENTS
    distributions = sorted({plugin for _, _, plugin in COMPONENTS})
    several = f"import sys; from core_rl.cli.main import main; sys.exit(sum(main(['plugins', 'check', one]) for one in {distributions}))"
    assert site.run("-c", several).count("nothing wrong") == len(NAMES)


@each
def test_their_own_tests_pass(site: Site, name: str) -> None:
    """Against what is installed, by the project's own pytest configuration."""
    assert " passed" in site.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", cwd=name)


def test_the_loss_trains(site: Site) -> None:
    """A model learns with it, and tokens beyond the clip are met."""
    record = site.train("ce_gppo", "run.steps=12", "train_engine.lr=1e-2", "eval.every=30")
    kept = [value for edge in ("low", "high") for _, value in record.series(f"ratio/kept_{edge}_frac")]

    assert improvement(record) > 0.05
    assert len(kept) == 24
    assert 0.0 < max(kept) < 1.0


def test_the_environment_trains(site: Site) -> None:
    """Games of several turns are played, paid and learnt from."""
    record = site.train("guess", "run.steps=10", "algorithm.group_size=16", "train_engine.lr=1e-2")
    games = [row for rows in record.samples("train").values() for row in rows]
    turns = {row["tokens"]: row for row in games}

    assert improvement(record) > 0.05
    assert set(turns) == {1, 2, 3}  # tokens of the policy alone; the hints between them are in the text
    assert len(turns[3]["completion"]) == 5
    assert turns[3]["completion"][1] in "+-!"
    assert {row["reward"] for row in games} == {0.0, 1.0}


@pytest.fixture
def judge() -> Iterator[Any]:
    """The server of the judge's own tests, which gives an answer's first digit as the score, and is busy now and then."""
    path = ROOT / "examples" / "plugins" / "judge" / "tests" / "judge_server.py"
    spec = importlib.util.spec_from_file_location("_judge_server", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    server = module.JudgeServer(_verdict(module.said))
    yield server
    server.close()


def _score(answer: str) -> str:
    return answer[0] if answer[:1].isdigit() else "0"


def _verdict(said: Callable[[str], Any]) -> Callable[[int, Any], Any]:
    def plan(number: int, body: Any) -> Any:
        answer = body["messages"][1]["content"].partition("<answer>\n")[2]
        busy = (429, {"Retry-After": "0"}, "busy")
        return busy if number % 7 == 3 else said(f"It begins so.\nSCORE: {_score(answer)}")

    return plan


def test_the_judge_trains(site: Site, judge: Any) -> None:
    """The policy learns what the judge likes; a text is judged once, and a judge that is busy is asked again."""
    server = f"rewards=[{{name: judge, url: '{judge.url}', model: toy, backoff_s: 0.01}}]"
    record = site.train("judge", server, "run.steps=12", "run.prompts_per_step=4", "train_engine.lr=1e-2")
    rows = [row for rows in record.samples("train").values() for row in rows]
    texts = [request["body"]["messages"][1]["content"] for request in judge.requests]

    assert improvement(record) > 0.05
    assert all(row["reward"] == int(_score(row["completion"])) / 10 for row in rows)
    assert record.series("reward/failed") == [(step, 0.0) for step in range(1, 13)]
    assert len(set(texts)) <= len(texts) <= 1.2 * len(set(texts)) + 1  # one in seven is asked again


def improvement(record: RunRecord) -> float:
    ends = first_and_last(record.series("reward/mean"))
    assert ends is not None
    return ends[1] - ends[0]
