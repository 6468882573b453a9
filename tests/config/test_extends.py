"""Run files that build on others."""

from __future__ import annotations

from pathlib import Path

import pytest

from core_rl.config.recipes import Recipe, find_recipe, recipes
from core_rl.errors import PluginError


@pytest.fixture
def write(tmp_path):
    def call(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    return call


def test_mappings_merge_and_lists_replace(run_file, write):
    """What the base says stays, unless it is said again."""
    write(
        "base.yaml",
        "run: {seed: 7, steps: 9}\nmodel: {path: toy, config: {a: 1, b: {c: 2}}}\ndata: {name: rows, path: x}\n"
        "algorithm: grpo\nloggers: [console, jsonl]\n",
    )
    file = run_file("extends: base.yaml\nrun: {steps: 3}\nmodel: {config: {b: {d: 3}}}\nloggers: [jsonl]\n", base="")

    assert (file.run.seed, file.run.steps) == (7, 3)
    assert file.model.config == {"a": 1, "b": {"c": 2, "d": 3}}
    assert [one.name for one in file.loggers] == ["jsonl"]


def test_a_changed_name_drops_the_inherited_options(run_file, write):
    """The old component's options mean nothing to the new one; `name` in a plain section is only a key."""
    write(
        "base.yaml",
        "run: {name: a, seed: 7}\nalgorithm: {name: grpo, loss: {name: ppo_clip, clip_low: 0.1}}\ntrain_engine: {lr: 3, warmup_steps: 5}\n",
    )
    file = run_file(
        "extends: base.yaml\nrun: {name: b}\nmodel: {path: toy}\ndata: {name: rows, path: x}\n"
        "algorithm: {group_size: 2, loss: cispo}\ntrain_engine: {name: fsdp, lr: 2}\n",
        base="",
    )

    assert (file.run.name, file.run.seed) == ("b", 7)
    assert (file.algorithm.options.group_size, file.algorithm.options.loss.options.upper) == (2, 5.0)
    assert (file.train_engine.name, file.train_engine.options.lr, file.train_engine.options.warmup_steps) == ("fsdp", 2.0, 0)


def test_the_same_name_keeps_them(run_file, write):
    """Also in the short form, and also where the base only changed the default."""
    write("base.yaml", "train_engine: {lr: 3}\nalgorithm: {name: grpo, group_size: 2}\n")
    file = run_file(
        "extends: base.yaml\nmodel: {path: toy}\ndata: {name: rows, path: x}\nalgorithm: grpo\ntrain_engine: local\n", base=""
    )

    assert (file.train_engine.options.lr, file.algorithm.options.group_size) == (3.0, 2)


def test_several_files_and_files_in_other_folders(run_file, write):
    """The later one wins; paths are relative to the file that names them."""
    write("common/model.yaml", "extends: deeper/data.yaml\nmodel: {path: toy}\nrun: {seed: 1}\n")
    write("common/deeper/data.yaml", "data: {name: rows, path: x}\n")
    write("algorithm.yml", "algorithm: grpo\nrun: {seed: 2}\n")
    file = run_file("extends: [common/model.yaml, algorithm.yml]\n", base="")

    assert (file.run.seed, file.data.options.path) == (2, "x")


def test_a_mistake_in_a_base_stands_in_the_base(problems, write):
    """File, line and column of where it was written."""
    write("common/base.yaml", "run:\n  sed: 1\n")

    assert problems("extends: common/base.yaml\n") == [
        "common/base.yaml:2:3: run.sed: unknown key of `run`; did you mean `seed`?"
    ]


def test_a_circle_is_named(problems, write):
    """Each file of it."""
    write("a.yaml", "extends: b.yaml\n")
    write("b.yaml", "extends: run.yaml\n")

    assert problems("extends: a.yaml\n") == [
        "b.yaml:1:10: extends: these files extend each other in a circle: run.yaml -> a.yaml -> b.yaml -> run.yaml"
    ]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("missing.yaml", "run.yaml:4:10: extends: missing.yaml is no file (paths are relative to run.yaml)"),
        ("folder.yaml", "run.yaml:4:10: extends: folder.yaml is a directory (paths are relative to run.yaml)"),
        (
            "base",
            "run.yaml:4:10: extends: 'base' is neither a file (.yaml) nor a recipe (DISTRIBUTION/NAME, see core-rl recipes)",
        ),
        ("3", "run.yaml:4:10: extends: expected a YAML file or a plugin's recipe, or a list of them, found 3"),
        (
            "core-rl-toy/dema",
            "run.yaml:4:10: extends: there is no recipe 'core-rl-toy/dema'; did you mean `core-rl-toy/demo`? (see core-rl recipes)",
        ),
    ],
)
def test_what_cannot_be_extended(problems, text, message):
    """One line, at its place."""
    Path("folder.yaml").mkdir()

    assert problems(f"extends: {text}\n") == [message]


@pytest.mark.usefixtures("installed")
def test_a_plugins_recipe_is_a_base(run_file):
    """Found in the plugin's package, which is not imported for it."""
    file = run_file("extends: core-rl-toy/demo\nrun: {seed: 3}\n", base="")

    assert (file.rewards[0].name, file.run.seed) == ("exact", 3)


@pytest.mark.usefixtures("installed")
def test_recipes_have_a_name_and_a_summary():
    """The summary is the first line of the first comment; names are as forgiving as distribution names."""
    assert [(one.name, one.summary) for one in recipes()] == [("core-rl-toy/demo", "A toy run that learns nothing.")]
    assert find_recipe("Core_RL.toy/demo").name == "core-rl-toy/demo"
    with pytest.raises(PluginError, match="no recipe"):
        find_recipe("core-rl-toy/other")


def test_a_recipe_without_comment_has_no_summary(tmp_path):
    """And the line for editors is none."""
    path = tmp_path / "a.yaml"
    path.write_text("# yaml-language-server: $schema=x\n\nrun: {}\n# later\n", encoding="utf-8")

    assert Recipe(name="x/a", path=path).summary == ""
