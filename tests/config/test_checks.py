"""Mistakes that only several keys together make."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from core_rl.component import hookimpl
from core_rl.errors import Problem

REST = "data: {name: rows, path: x}\nalgorithm: grpo\n"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "model: {dtype: float32}",
            ["1:1: model: which model? give `path`, or `init: random` with `config: {model_type: llama, …}`"],
        ),
        (
            "model:\n  init: random\n  config: {hidden_size: 8}",
            [
                "1:1: model: a model without `path` needs `tokenizer`: a folder, a hub name, or characters:0123456789",
                "3:3: model.config: a model without `path` needs `model_type` here, such as llama",
            ],
        ),
    ],
)
def test_which_model_has_an_answer(problems, text, lines):
    """A path, or a whole config with a tokenizer."""
    assert problems(f"{text}\n{REST}", base="") == [f"run.yaml:{line}" for line in lines]


def test_a_model_from_its_config_is_complete(run_file):
    """Type and tokenizer are all it needs."""
    text = "model: {init: random, config: {model_type: llama}, tokenizer: 'characters:01'}\n"

    assert run_file(text + REST, base="").model.init == "random"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("sampling: {min_new_tokens: 9, max_new_tokens: 8}", "4:28: sampling.min_new_tokens: 9 is more than max_new_tokens, 8"),
        (
            "eval:\n  sampling: {min_new_tokens: 900}",
            "5:30: eval.sampling.min_new_tokens: 900 is more than max_new_tokens, 256",
        ),
        (
            "sampling: {max_new_tokens: 64}\nmodel: {path: x, max_length: 64}",
            "1:28: sampling.max_new_tokens: 64 leaves no room for a prompt in model.max_length, 64",
        ),
        (
            "run: {prompts_per_step: 2}\nalgorithm: {name: grpo, minibatches: 3}",
            "2:38: algorithm.minibatches: 3 is more than run.prompts_per_step, 2, and groups stay whole",
        ),
        (
            "algorithm: {name: grpo, kl: {coef: 0, target: 0.1}}",
            "1:47: algorithm.kl.target: 0 stays 0 however it is steered: give kl.coef a start above 0, or leave target out",
        ),
        (
            "algorithm: {name: grpo, kl: {coef: 0, reset_every: 5}}",
            "1:52: algorithm.kl.reset_every: nothing reads this while kl.coef is 0, since no reference is kept: leave it out",
        ),
    ],
)
def test_numbers_that_do_not_go_together(problems, text, line):
    """Each at the key that is to be changed."""
    parts = {"model": "model: {path: toy}\n", "algorithm": "algorithm: grpo\n", "data": "data: {name: rows, path: x}\n"}
    given = {part.partition(":")[0] for part in text.split("\n")}
    base = "".join(part for name, part in parts.items() if name not in given)
    number, rest = line.split(":", 1)
    offset = base.count("\n") if len(given & parts.keys()) else 0
    number = int(number) + offset

    assert problems(text + "\n", base=base) == [f"run.yaml:{number}:{rest}"]


def test_sizes_that_just_fit(run_file):
    """The bounds themselves are allowed."""
    file = run_file(
        "run: {prompts_per_step: 2}\nsampling: {min_new_tokens: 8, max_new_tokens: 8}\neval: {every: 3}\n", "minibatches=2"
    )

    assert file.algorithm.options.minibatches == 2


def test_plugins_add_their_own_checks(problems, catalogue):
    """A problem without a place gets that of the key it names, or of the section around it."""

    @hookimpl
    def core_rl_check_config(config):
        yield Problem("", "algorithm.group_size", f"{config.algorithm.options.group_size} is not enough")
        yield Problem("", "sampling.stop.0", "no")
        yield Problem("here", "x", "as it is")

    catalogue.manager.register(SimpleNamespace(core_rl_check_config=core_rl_check_config))

    assert problems("") == [
        "run.yaml:1:1: sampling.stop.0: no",
        "run.yaml:3:1: algorithm.group_size: 8 is not enough",
        "here: x: as it is",
    ]


def test_checks_wait_until_the_types_are_right(problems):
    """A plugin's check can rely on a whole run file."""
    assert problems("run: {seed: x}\nsampling: {min_new_tokens: 900}\n") == [
        "run.yaml:4:13: run.seed: expected an integer, found text 'x'"
    ]


def test_the_files_own_lists_of_plugins_hold(loaded, problems):
    """Read ahead of everything else, also from overrides."""
    assert [one.plugin for one in loaded("", "plugins.block=[other]").catalogue.blocked] == []
    assert problems("", "plugins.block=[core-rl-toy]")[0].startswith("run.yaml:1:1: train_engine: ")
    assert problems("plugins: {allow: [other]}\n")[0].startswith("run.yaml:1:1: train_engine: ")
    assert problems("plugins: {allow: other}\n") == [
        "run.yaml:4:18: plugins.allow: expected a list of texts or null, found text 'other' (write [other])"
    ]
