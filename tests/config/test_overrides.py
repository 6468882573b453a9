"""`key=value` from the command line."""

from __future__ import annotations

import pytest


def test_dotted_paths_and_yaml_values(run_file):
    """Through sections, components and algorithm parts."""
    file = run_file(
        "",
        "run.seed=3",
        "train_engine.lr=1e-5",
        "algorithm.loss.clip_high=0.3",
        "sampling.stop=['a b', c]",
        "model.config.rope.theta=5",
        "run.name=yes",
        "train_engine={warmup_steps: 4}",
    )

    assert (file.run.seed, file.run.name, file.sampling.stop) == (3, "yes", ("a b", "c"))
    assert (file.train_engine.options.lr, file.train_engine.options.warmup_steps) == (1e-5, 4)
    assert file.algorithm.options.loss.options.clip_high == 0.3
    assert file.model.config == {"rope": {"theta": 5}}


def test_the_end_of_a_path_is_enough_where_it_is_the_end_of_one(run_file):
    """And a key of `run` needs no `run.`, although data has a seed too."""
    file = run_file("", "seed=3", "steps=5", "lr=1", "kl.coef=0.5", "clip_low=0.1", "eval.every=2")

    assert (file.run.seed, file.run.steps, file.data.options.seed, file.eval.every) == (3, 5, 0, 2)
    assert (file.train_engine.options.lr, file.algorithm.options.kl.coef) == (1.0, 0.5)
    assert file.algorithm.options.loss.options.clip_low == 0.1


def test_entries_of_lists(run_file):
    """By index, also of a default list; a new name drops the old options and keeps the weight."""
    file = run_file(
        "rewards: [{name: format, pattern: a, weight: 3}, exact]\n",
        "rewards.0.name=exact",
        "rewards.1.weight=2",
        "loggers.1={name: tracker, project: p}",
        "loggers.1.mode=offline",
    )

    assert [(one.name, one.weight) for one in file.rewards] == [("exact", 3.0), ("exact", 2.0)]
    assert [one.name for one in file.loggers] == ["console", "tracker"]
    assert (file.loggers[1].options.project, file.loggers[1].options.mode) == ("p", "offline")


@pytest.mark.parametrize("turned", [False, True])
def test_a_name_comes_before_its_options_in_any_order(run_file, turned):
    """A new name drops what the file said, never what the same command line says."""
    overrides = ["train_engine.name=fsdp", "train_engine.lr=2"]
    file = run_file("train_engine: {warmup_steps: 3}\n", *(reversed(overrides) if turned else overrides))

    assert (file.train_engine.name, file.train_engine.options.lr, file.train_engine.options.warmup_steps) == ("fsdp", 2.0, 0)


def test_the_last_of_two_wins(run_file):
    """As everywhere on a command line."""
    assert run_file("", "run.seed=3", "run.seed=4").run.seed == 4


def test_null_takes_away(run_file):
    """Where null is allowed."""
    assert run_file("eval_data: {name: rows, path: x}\n", "eval_data=null").eval_data is None


def test_lists_and_short_forms(run_file):
    """A list replaces the list, a name selects a component."""
    file = run_file("train_engine: {warmup_steps: 3}\n", "loggers=[console]", "train_engine=fsdp")

    assert [one.name for one in file.loggers] == ["console"]
    assert (file.train_engine.name, file.train_engine.options.warmup_steps) == ("fsdp", 0)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed", "an override is written key=value, with a dotted key such as train_engine.lr"),
        ("=3", "an override is written key=value, with a dotted key such as train_engine.lr"),
        ("run..seed=3", "an override is written key=value, with a dotted key such as train_engine.lr"),
        ("run.sed=3", "run.sed: unknown key of `run`; did you mean `seed`?"),
        ("sed=3", "no key is called `sed`; did you mean `run.seed`?"),
        ("training_engine.lr=3", "no key is called `training_engine.lr`; did you mean `train_engine.lr`?"),
        ("quux=3", "no key is called `quux`"),
        (
            "max_new_tokens=3",
            "`max_new_tokens` could be sampling.max_new_tokens or eval.sampling.max_new_tokens; write one of them",
        ),
        ("run.seed=x", "run.seed: expected an integer, found text 'x'"),
        ("run.seed.x=3", "run.seed: expected an integer, found a mapping"),
        ("run=3", "run: expected a mapping, found 3"),
        ("algorithm.loss.clip=3", "algorithm.loss.clip: unknown option of loss `ppo_clip`; did you mean `clip_low`?"),
        ("loggers=[console", "loggers: not valid YAML: did not find expected ',' or ']'"),
        ("loggers.2=console", "loggers: no entry 2: the list has entries 0 to 1"),
        ("rewards.0.weight=2", "rewards: no entry 0: the list has no entries"),
        ("data.0=x", "data.0: unknown option of data `rows`; known: path, limit, seed"),
        ("run.0=x", "run.0: unknown key of `run`"),
        ("loggers.first=console", "loggers: expected a list of logger components, found a mapping"),
        ("sampling.temperature=-1", "sampling.temperature: must be >= 0.0, found -1.0"),
        ("model.path=@x", "model.path: `@` cannot begin a value; put the text in quotes"),
    ],
)
def test_a_wrong_override_is_named_as_it_was_written(problems, override, message):
    """There is no line to point to."""
    found = problems("", override)

    assert len(found) == 1
    assert found[0].startswith(f"{override}: {message}")
