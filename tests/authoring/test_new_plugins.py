"""`core-rl plugins new`: a plugin of every kind is written, installed, found, tested and trained with, as its author would."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from core_rl.authoring.kinds import KINDS
from core_rl.authoring.render import checked, rendered
from core_rl.cli.main import main

ENGINES = {"rollout-engine", "train-engine"}
"""Their suites take a minute or more."""
PIP = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index"]
ALL_AT_ONCE = """
extends: base.yaml
run: {steps: 2, prompts_per_step: 4}
algorithm: {name: my_algorithm, group_size: 4, loss: my_loss, advantage: my_advantage, rejections: [my_rejection]}
rewards: [my_reward]
loggers: [my_logger]
data: {name: my_data, count: 16}
workflow: {name: my_workflow, again: "="}
launcher: my_launcher
train_engine: {name: my_train_engine, lr: 1e-3}
rollout_engine: my_rollout_engine
weight_transport: my_weight_transport
"""


@pytest.fixture(scope="module")
def plugins(tmp_path_factory):
    """A folder with a distribution for each kind, and one in which they are installed."""
    folder = tmp_path_factory.mktemp("plugins")
    for kind in KINDS:
        assert main(["plugins", "new", f"my-{kind}", "--kind", kind, "--dir", str(folder / kind)]) == 0
    sources = [str(folder / kind) for kind in KINDS]
    subprocess.run([sys.executable, *PIP, "--target", str(folder / "site"), *sources], check=True, capture_output=True)
    return folder


def run(plugins, *command, cwd=None):
    """As if they were installed here."""
    path = os.pathsep.join(filter(None, [str(plugins / "site"), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd or plugins,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def test_each_is_listed(plugins):
    """With its kind and its distribution, and nothing is broken."""
    done = run(plugins, "-m", "core_rl", "plugins", "list")

    for kind in KINDS:
        name = f"my_{kind.replace('-', '_')}"
        assert any(
            line.split()[:3] == [kind.replace("-", "_"), name, f"core-rl-my-{kind}"] for line in done.stdout.splitlines()
        )
    assert "broken" not in done.stdout


def test_their_own_tests_pass(plugins):
    """What is written for the author, with pytest as he would run it."""
    light = [str(plugins / kind / "tests") for kind in KINDS if kind not in ENGINES]
    done = run(plugins, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-o", "addopts=", *light)

    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(ENGINES))
def test_the_suites_of_engines_pass(plugins, kind):
    done = run(plugins, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(plugins / kind / "tests"))

    assert done.returncode == 0, done.stdout[-4000:]


def test_a_run_with_all_of_them(plugins):
    """Each does its part of one training."""
    folder = plugins / "algorithm"
    (folder / "example" / "all.yaml").write_text(ALL_AT_ONCE)
    done = run(plugins, "-m", "core_rl", "train", "example/all.yaml", f"run.dir={plugins / 'runs'}", cwd=folder)

    assert done.returncode == 0, done.stderr
    table = (plugins / "runs" / "my_algorithm" / "latest" / "metrics.csv").read_text().splitlines()
    assert len(table) == 3
    assert "my_loss/weight" in table[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_example_trains(plugins, kind):
    """From the folder of the distribution, as its README says."""
    done = run(plugins, "-m", "core_rl", "train", "example/run.yaml", "run.steps=2", cwd=plugins / kind)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_the_readme_and_the_metadata_are_its_own(kind):
    """No word is left open, and what one needs to publish it is there."""
    files = rendered(checked("soft-clip", kind))
    project = tomllib.loads(files["pyproject.toml"])["project"]

    assert [path for path, text in files.items() if "%" in path or "%name%" in text or "%Class%" in text] == []
    assert project["name"] == "core-rl-soft-clip"
    assert "core-rl-plugin" in project["keywords"]
    assert project["entry-points"]["core_rl.plugins"] == {"soft_clip": "core_rl_soft_clip.plugin"}
    assert "src/core_rl_soft_clip/py.typed" in files
    assert "trusted publishing" in files[".github/workflows/release.yml"]
    assert "core-rl train example/run.yaml" in files["README.md"]


@pytest.mark.slow
def test_what_is_written_is_typed(plugins):
    """mypy has nothing to say, with the settings that come along."""
    settings = ["--config-file", str(plugins / "loss" / "pyproject.toml"), "--cache-dir", str(plugins / "mypy")]
    done = run(plugins, "-m", "mypy", *settings, *(str(plugins / kind / "src") for kind in KINDS))

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["My", "2fast", "a--b", "", "a b", "../x", "class", "core"])
def test_a_name_that_is_none(name, tmp_path, capsys):
    """One line, and nothing is written."""
    assert main(["plugins", "new", name, "--kind", "loss", "--dir", str(tmp_path / "x")]) == 2
    assert "plugins new: " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_in_it(tmp_path, capsys):
    """Stays as it is."""
    (tmp_path / "mine").write_text("precious")

    assert main(["plugins", "new", "x", "--kind", "loss", "--dir", str(tmp_path)]) == 2
    assert "is there already and is not empty; nothing was written" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_place_that_cannot_be_written(tmp_path, capsys):
    """With the system's reason."""
    Path(tmp_path / "file").write_text("")

    assert main(["plugins", "new", "x", "--kind", "loss", "--dir", str(tmp_path / "file" / "x")]) == 2
    assert "plugins new: cannot write" in capsys.readouterr().err


def test_the_name_may_come_with_its_prefix():
    """core-rl-soft-clip is soft-clip."""
    plugin = checked("core-rl-soft-clip", "loss")

    assert (plugin.distribution, plugin.module, plugin.component) == ("core-rl-soft-clip", "core_rl_soft_clip", "soft_clip")
