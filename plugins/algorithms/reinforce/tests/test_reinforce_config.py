"""The algorithms as sets of defaults, the options' bounds, and what is refused."""

from __future__ import annotations

import sys
from subprocess import run

import attrs
import pytest

from core_rl.capabilities import check_capabilities
from core_rl.config.load import load_run_file
from core_rl.errors import CapabilityError, ConfigError
from core_rl.loops.parts import needs_reference, proximal_mode
from core_rl.plugins.references import load_reference
from core_rl_reinforce.checks import check
from core_rl_reinforce.config import (
    GdpoConfig,
    GpgConfig,
    MaxRlConfig,
    PassAtKConfig,
    PfPpoConfig,
    ReinforceLossConfig,
    RemaxConfig,
    ReturnsConfig,
)
from core_rl_reinforce.plugin import core_rl_advantages, core_rl_algorithms, core_rl_losses, core_rl_resamplers

RUN = """
model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}
data: {name: jsonl, path: rows.jsonl}
algorithm: reinforce
rewards: [math]
"""


@pytest.fixture
def load(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text(RUN)

    def loaded(*overrides):
        run_file = load_run_file(file, overrides)
        check_capabilities(run_file)
        return run_file

    return loaded


TOKENS, SUMS, MEANS = "token-mean", "seq-mean-token-sum", "seq-mean-token-mean"


@pytest.mark.parametrize(
    ("name", "advantage", "norm", "loss", "aggregation", "size", "kl", "proximal"),
    [
        ("reinforce", "reinforce_returns", None, "reinforce", SUMS, 1, None, "reuse"),
        ("rloo", "rloo", None, "reinforce", SUMS, 8, (0.05, "k1", "reward"), "recompute"),
        ("reinforce_pp", "reinforce_returns", "whiten", "ppo_clip", TOKENS, 1, (0.01, "k1", "reward"), "recompute"),
        ("reinforce_pp_baseline", "group_norm", "whiten", "ppo_clip", TOKENS, 8, (0.01, "k2", "loss"), "reuse"),
        ("remax", "remax", None, "reinforce", SUMS, 1, None, "reuse"),
        ("opo", "opo", None, "reinforce", TOKENS, 8, None, "reuse"),
        ("gpg", "gpg", None, "reinforce", TOKENS, 8, None, "reuse"),
        ("pass_at_k", "pass_at_k", None, "ppo_clip", TOKENS, 8, None, "reuse"),
        ("maxrl", "maxrl", None, "ppo_clip", TOKENS, 8, None, "reuse"),
        ("gdpo", "gdpo", None, "ppo_clip", MEANS, 8, None, "reuse"),
        ("pf_ppo", "gae", "whiten", "ppo_clip", TOKENS, 5, (0.02, "k1", "reward"), "recompute"),
    ],
)
def test_an_algorithm_is_its_papers_parts(load, *, name, advantage, norm, loss, aggregation, size, kl, proximal):
    """Every name resolves, with the parts of the paper and no extra forward pass that nothing reads."""
    options = load(f"algorithm={name}").algorithm.options
    found = options.kl

    assert (options.advantage.name, options.loss.name, options.aggregation.name) == (advantage, loss, aggregation)
    assert (options.advantage_norm and options.advantage_norm.name) == norm
    assert options.group_size == size
    assert (found.coef, found.estimator.name, found.place) == (kl or (0.0, "k3", "loss"))
    assert (needs_reference(options), proximal_mode(options)) == (kl is not None, proximal)


def test_pf_ppo_is_ppo_with_a_resampler(load):
    """A critic, and samples drawn by the square of their reward, prompt by prompt."""
    options = load("algorithm=pf_ppo").algorithm.options

    assert options.critic is not None
    assert options.resampler.name == "pf_ppo"
    assert options.resampler.options == PfPpoConfig(weights="pow", power=2.0, level="group")


def test_reinforce_pp_baseline_takes_the_mean_alone(load):
    """The deviation is the batch's."""
    advantage = load("algorithm=reinforce_pp_baseline").algorithm.options.advantage.options

    assert (advantage.mean_level, advantage.std_level) == ("group", "none")


@pytest.mark.parametrize("name", ["rloo", "opo", "gpg", "pass_at_k", "maxrl", "gdpo", "reinforce_pp_baseline"])
def test_a_group_of_one_is_refused(load, name):
    """It would train on nothing."""
    with pytest.raises((CapabilityError, ConfigError), match="take at least 2"):
        load(f"algorithm={{name: {name}, group_size: 1}}")


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        ("{name: gdpo, reward_norm: whiten}", r"algorithm\.reward_norm: gdpo reads the parts of the reward"),
        (
            "{name: gdpo, kl: {coef: 0.1, place: reward}}",
            r"algorithm\.kl\.place: gdpo reads the parts .* take loss or advantage",
        ),
        ("{name: remax, reward_norm: whiten}", r"algorithm\.reward_norm: remax compares rewards with that of a greedy"),
        ("{name: reinforce, loss: {name: reinforce, cap: 2.0}}", "nothing is weighed with importance: none"),
    ],
)
def test_what_would_not_be_read_is_refused(load, algorithm, message):
    """In one line at its place."""
    with pytest.raises(ConfigError, match=message):
        load(f"algorithm={algorithm}")


@pytest.mark.parametrize("algorithm", ["{name: gdpo, kl: {coef: 0.1}}", "{name: remax, kl: {coef: 0.1, place: reward}}"])
def test_its_neighbours_are_not(load, algorithm):
    """The KL of a token beside GDPO, and in ReMax's rewards."""
    assert load(f"algorithm={algorithm}").algorithm.options.kl.coef == 0.1


def test_importance_weights_ask_for_the_samplers_log_probabilities(load):
    """The local engine has them; with the loss among the extra ones too."""
    load("algorithm={name: reinforce, loss: {name: reinforce, importance: rollout, cap: 2.0}}")
    load("algorithm={name: rloo, extra_losses: [{name: reinforce, importance: rollout}]}")


@pytest.mark.parametrize("place", ["loss", "extra_losses[0]"])
def test_an_engine_without_them_is_refused(load, place):
    """In one line at the option."""
    weighed = "{name: reinforce, importance: rollout}"
    extra = place != "loss"
    run_file = load(f"algorithm={{name: reinforce, {'extra_losses: [' + weighed + ']' if extra else 'loss: ' + weighed}}}")
    assert check(run_file) == []

    silent = attrs.evolve(run_file.rollout_engine.component, provides=frozenset())
    problems = check(attrs.evolve(run_file, rollout_engine=attrs.evolve(run_file.rollout_engine, component=silent)))

    assert [problem.path for problem in problems] == [f"algorithm.{place}.importance"]
    assert "rollout_engine: local does not provide it" in problems[0].message


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        (ReturnsConfig, {"gamma": 1.1}, "gamma"),
        (RemaxConfig, {"gamma": -0.1}, "gamma"),
        (GpgConfig, {"eps": -1.0}, "eps"),
        (PassAtKConfig, {"eps": -1.0}, "eps"),
        (MaxRlConfig, {"eps": 0.0}, "eps"),
        (GdpoConfig, {"eps": -1.0}, "eps"),
        (ReinforceLossConfig, {"importance": "rollout", "cap": 0.0}, "cap"),
        (PfPpoConfig, {"power": -1.0}, "power"),
    ],
)
def test_options_out_of_bounds_are_refused(cls, options, message):
    """With the option's name in the message."""
    with pytest.raises(ValueError, match=message):
        cls(**options)


@pytest.mark.parametrize(
    ("options", "formula"),
    [
        (ReturnsConfig(gamma=0.9), "A_t = sum_(k >= t) 0.9^(k-t) r_k"),
        (RemaxConfig(), "A_t = sum_(k >= t) 1^(k-t) r_k - R(greedy)"),
        (GpgConfig(alpha="one", scale="std"), "A_i = alpha (R_i - mean_G) / (std_G + 1e-06), alpha = 1"),
        (PassAtKConfig(), "A_i = (R_1st - R_2nd) of the best sample, 0 of the others"),
        (MaxRlConfig(), "A_i = (R_i - mean_G) / mean_G where mean_G > 0, else 0"),
        (MaxRlConfig(at_zero="eps"), "A_i = (R_i - mean_G) / (max(mean_G, 0) + 1e-06)"),
        (GdpoConfig(batch_norm=False), "A_i = sum_k w_k (R_ik - mean_G) / (std_G + 1e-06)"),
        (
            GdpoConfig(order="sum_then_normalise"),
            "A_i = (sum_k w_k R_ik - mean_G) / (std_G + 1e-06); A_i <- (A_i - mean_B) / (std_B + 1e-06)",
        ),
        (ReinforceLossConfig(), "l_t = -A_t log pi_t"),
        (ReinforceLossConfig(importance="rollout", cap=2.0), "l_t = -sg(min(pi/mu, 2)) A_t log pi_t"),
        (ReinforceLossConfig(importance="rollout"), "l_t = -sg(pi/mu) A_t log pi_t"),
        (PfPpoConfig(), "i ~ w_i / sum w over the group, with replacement, w_i = |R_i|^2"),
    ],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
def test_formulas_have_the_values(options, formula):
    """As `config show --explain` prints them."""
    assert options.formula() == formula


def test_every_component_can_be_loaded():
    """Targets and options classes are where the components say; every advantage, loss and resampler has a formula."""
    parts = [*core_rl_advantages(), *core_rl_losses(), *core_rl_resamplers()]
    for component in parts:
        options = load_reference(component.config)() if component.config else None
        target = load_reference(component.target)

        assert callable(target(options) if component.config else target())
        assert component.formula or options.formula()
    for component in core_rl_algorithms():
        assert component.target == component.config
        assert load_reference(component.config)().group_size >= 1


def test_options_are_read_without_torch():
    """Listing and checking must be quick."""
    modules = "core_rl_reinforce.plugin, core_rl_reinforce.algorithms, core_rl_reinforce.config, core_rl_reinforce.checks"

    assert run([sys.executable, "-c", f"import sys, {modules}; sys.exit('torch' in sys.modules)"], check=False).returncode == 0
