"""The algorithm as a set of defaults, its options' bounds, and what is refused."""

from __future__ import annotations

import sys
from subprocess import run

import pytest

from core_rl.capabilities import check_capabilities
from core_rl.config.algorithm import RefillConfig
from core_rl.config.load import load_run_file
from core_rl.errors import ConfigError
from core_rl.plugins.references import load_reference
from core_rl_dapo.config import OverlongConfig
from core_rl_dapo.plugin import core_rl_algorithms, core_rl_rewards

RUN = """
model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}
data: {name: jsonl, path: rows.jsonl}
sampling: {max_new_tokens: 64}
algorithm: dapo
rewards: [math]
"""


@pytest.fixture
def load(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text(RUN)
    return lambda *overrides: load_run_file(file, overrides)


def test_dapo_is_the_papers(load):
    """Clip-higher, mean over tokens, dynamic sampling, overlong penalty, no KL; and it resolves with every part."""
    run_file = load()
    check_capabilities(run_file)
    dapo = run_file.algorithm.options

    assert (dapo.advantage.name, dapo.loss.name, dapo.aggregation.name) == ("group_norm", "ppo_clip", "token-mean")
    assert (dapo.loss.options.clip_low, dapo.loss.options.clip_high, dapo.loss.options.dual_clip) == (0.2, 0.28, None)
    assert [(one.name, one.options.metric, one.options.without) for one in dapo.rejections] == [
        ("zero_variance", "reward", ("overlong",))
    ]
    assert [one.name for one in dapo.rewards] == ["overlong"]
    assert dapo.refill == RefillConfig(max_rounds=10, oversample=1.0, when_short="train")
    assert dapo.kl.coef == 0.0
    assert dapo.rewards[0].options == OverlongConfig(max_length=None, cache=None, factor=1.0, floor=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cache": 0}, "cache"),
        ({"factor": 0.0}, "factor"),
        ({"max_length": 0}, "max_length"),
        ({"max_length": 10, "cache": 11}, "must be at most max_length, 10, found 11"),
    ],
)
def test_options_out_of_bounds_are_refused(options, message):
    """With the bound in the message."""
    with pytest.raises(ValueError, match=message):
        OverlongConfig(**options)


@pytest.mark.parametrize("place", ["algorithm.rewards", "rewards"])
def test_a_cache_longer_than_any_completion_is_refused(load, place):
    """In one line at its place; with a length of its own it may be."""
    with pytest.raises(
        ConfigError, match=rf"{place}\[0\]: overlong's cache of 65 tokens is more than sampling.max_new_tokens, 64"
    ):
        load(f"{place}=[{{name: overlong, cache: 65}}]")
    load(f"{place}=[{{name: overlong, cache: 65, max_length: 100}}]")
    load(f"{place}=[{{name: overlong, cache: 64}}]")


def test_refill_that_nothing_can_start_is_refused(load):
    """No rejection, or only one that runs after the forward passes."""
    with pytest.raises(ConfigError, match="nothing empties a group before the forward passes"):
        load("algorithm.rejections=[]")
    load("algorithm.rejections=[]", "algorithm.refill=null")


@pytest.mark.parametrize(
    ("options", "formula"),
    [
        ({}, "R = max(-1, ...) of min(0, 1 (L_max - cache - L)/cache), L_max = sampling.max_new_tokens, cache = L_max/5"),
        (
            {"max_length": 20480, "cache": 4096, "factor": 0.5, "floor": False},
            "R = min(0, 0.5 (L_max - cache - L)/cache), L_max = 20480, cache = 4096",
        ),
    ],
)
def test_the_formula_has_the_values(options, formula):
    """As `config show --explain` prints it."""
    assert OverlongConfig(**options).formula() == formula


def test_every_component_can_be_loaded_without_torch():
    """Targets and options classes are where the components say; listing and checking must be quick."""
    for component in [*core_rl_algorithms(), *core_rl_rewards()]:
        options = load_reference(component.config)()
        assert component.target == component.config or load_reference(component.target)(options)
    code = "import sys, core_rl_dapo.plugin, core_rl_dapo.overlong, core_rl_dapo.checks; sys.exit('torch' in sys.modules)"

    assert run([sys.executable, "-c", code], check=False).returncode == 0
