"""`core-rl config` and `core-rl recipes`, as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from core_rl.cli.main import main

GOOD = "# A good file.\nmodel: {path: toy}\ndata: {name: rows, path: x}\nalgorithm: grpo\nrewards: [exact]\n"


pytestmark = pytest.mark.usefixtures("installed")


@pytest.fixture
def core_rl(capsys):
    """Run one command: its exit code, what it printed, and what it complained of."""

    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def good():
    path = Path("good.yaml")
    path.write_text(GOOD, encoding="utf-8")
    return path


def test_check_says_what_is_selected(core_rl, good):
    """Parts of the algorithm too, with the plugin of each."""
    code, out, err = core_rl("config", "check", good)

    assert (code, err) == (0, "")
    assert out.startswith("good.yaml: ok\n")
    assert "  algorithm.loss     ppo_clip (core-rl-toy)\n" in out


def test_check_reports_every_problem_and_exits_with_2(core_rl, good):
    """One line each, and how many there are."""
    code, out, err = core_rl("config", "check", good, "run.sed=3", "run.steps=0")

    assert (code, out) == (2, "")
    assert err.splitlines() == [
        "run.sed=3: run.sed: unknown key of `run`; did you mean `seed`?",
        "run.steps=0: run.steps: must be >= 1, found 0",
        "good.yaml: 2 problems",
    ]


def test_check_compares_needs_with_what_is_provided(core_rl, good):
    """Before anything is loaded: the toy engine has no reference policy."""
    code, _, err = core_rl("config", "check", good, "algorithm.entropy_coef=0.1")

    assert code == 2
    assert "entropy_grad" in err


def test_show_writes_a_file_that_loads_and_shows_the_same(core_rl, good):
    """With every default in it."""
    _, first, _ = core_rl("config", "show", good, "seed=5")
    Path("again.yaml").write_text(first, encoding="utf-8")
    code, second, _ = core_rl("config", "show", "again.yaml")

    assert code == 0
    assert first == second
    assert "  seed: 5\n" in first


def test_show_as_json_and_with_origins(core_rl, good):
    """The one for programs, the other for people."""
    _, text, _ = core_rl("config", "show", good, "--json")
    _, annotated, _ = core_rl("config", "show", good, "--origin")

    assert json.loads(text)["model"]["path"] == "toy"
    assert "# good.yaml:2:15\n" in annotated


def test_a_mistake_in_show_is_told_line_by_line(core_rl):
    """As every error of the user."""
    assert core_rl("config", "show", "missing.yaml") == (2, "", "core-rl: error: missing.yaml: no such file\n")


def test_schema_as_text_and_as_json(core_rl):
    """Every key with type, default and help."""
    _, text, _ = core_rl("config", "schema")
    _, schema, _ = core_rl("config", "schema", "--json")
    row = next(line for line in text.splitlines() if line.startswith("run.seed "))

    assert row.split(None, 3) == ["run.seed", "integer", "1", "of data order, sampling and initial weights"]
    assert json.loads(schema)["title"] == "core-rl run file"


def test_recipes_are_listed_and_shown(core_rl):
    """`show` prints the file as it is."""
    _, listed, _ = core_rl("recipes")
    _, rows, _ = core_rl("recipes", "list", "--json")
    _, text, _ = core_rl("recipes", "show", "core-rl-toy/demo")

    assert listed == "core-rl-toy/demo  A toy run that learns nothing.\n"
    assert json.loads(rows) == [{"name": "core-rl-toy/demo", "summary": "A toy run that learns nothing."}]
    assert text.startswith("# A toy run")


def test_a_recipe_that_is_none(core_rl):
    """With the nearest name."""
    code, _, err = core_rl("recipes", "show", "core-rl-toy/dem")

    assert code == 2
    assert "did you mean `core-rl-toy/demo`?" in err


def test_loading_imports_no_torch_and_is_quick(good):
    """A typical file loads in a few milliseconds, once the modules are there."""
    program = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from core_rl.config.load import load_run_file\n"
        "from core_rl.plugins import catalogue\n"
        "from core_rl.plugins.distributions import Candidate, Installed\n"
        "toy = Candidate(distribution='core-rl-toy', version='1.0', entry_point='toy', value='core_rl_toy.plugin')\n"
        "catalogue.installed_plugins = lambda: Installed(candidates=(toy,), broken=())\n"
        "found = catalogue.Catalogue.discover()\n"
        "for _ in range(2):\n"
        "    begin = time.process_time()\n"
        "    load_run_file(sys.argv[2], catalogue=found)\n"
        "    print(time.process_time() - begin)\n"
        "print([name for name in ('torch', 'transformers', 'numpy', 'rich') if name in sys.modules])\n"
    )
    toys = Path(__file__).parent / "toys"
    done = subprocess.run([sys.executable, "-c", program, toys, good], capture_output=True, text=True, check=True)
    first, second, heavy = done.stdout.splitlines()

    assert heavy == "[]"
    assert float(second) < 0.05
    assert float(first) < 0.5
