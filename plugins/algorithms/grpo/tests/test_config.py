"""The algorithms as sets of defaults, the options' bounds, and the check of the run file."""

from __future__ import annotations

import sys
from subprocess import run

import attrs
import pytest

from core_rl.config.run_file import RunFile
from core_rl.config.selection import select
from core_rl.hf.spec import ModelSpec
from core_rl.plugins.references import load_reference
from core_rl_grpo.config import DrGrpo, GroupNormConfig, Grpo, GrpoLoo, LitePpo, PpoClipConfig
from core_rl_grpo.plugin import core_rl_advantages, core_rl_algorithms, core_rl_check_config, core_rl_losses


def test_grpo_is_the_papers():
    """Group mean and deviation, PPO-clip, mean of means, KL k3 in the loss at 0.04."""
    grpo = Grpo()

    assert (grpo.advantage.name, grpo.advantage.options, grpo.loss.name) == ("group_norm", {}, "ppo_clip")
    assert grpo.aggregation.name == "seq-mean-token-mean"
    assert (grpo.kl.coef, grpo.kl.estimator.name, grpo.kl.place) == (0.04, "k3", "loss")
    assert (GroupNormConfig().std_level, GroupNormConfig().mean_level, GroupNormConfig().std) == ("group", "group", "sample")
    assert (PpoClipConfig().clip_low, PpoClipConfig().clip_high, PpoClipConfig().dual_clip) == (0.2, 0.2, None)


def test_dr_grpo_drops_both_biases():
    """No deviation, a constant length, no KL."""
    dr_grpo = DrGrpo()

    assert dr_grpo.advantage.options == {"std_level": "none"}
    assert (dr_grpo.aggregation.name, dr_grpo.kl.coef) == ("seq-mean-token-sum-norm", 0.0)


def test_lite_ppo_divides_by_the_batchs_deviation():
    """And averages over tokens, without a reference."""
    lite_ppo = LitePpo()

    assert lite_ppo.advantage.options == {"std_level": "batch"}
    assert (lite_ppo.aggregation.name, lite_ppo.kl.coef, lite_ppo.loss.name) == ("token-mean", 0.0, "ppo_clip")


def test_grpo_loo_leaves_a_sample_out_of_both_statistics():
    """As NeMo-RL does, with its KL."""
    grpo_loo = GrpoLoo()

    assert grpo_loo.advantage.options == {"leave_one_out": "both"}
    assert (grpo_loo.aggregation.name, grpo_loo.kl.coef, grpo_loo.kl.estimator.name) == ("token-mean", 0.01, "k3")


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        (PpoClipConfig, {"clip_low": -0.1}, "clip_low"),
        (PpoClipConfig, {"clip_low": 1.5}, "clip_low"),
        (PpoClipConfig, {"dual_clip": 1.0}, "dual_clip"),
        (PpoClipConfig, {"two_sided_delta": 1.2}, "must be above 1 \\+ clip_high, 1.2, found 1.2"),
        (GroupNormConfig, {"eps": -1.0}, "eps"),
        (GroupNormConfig, {"clip_low": 1.0, "clip_high": -1.0}, "must be at least clip_low, 1, found -1"),
    ],
)
def test_options_out_of_bounds_are_refused(cls, options, message):
    """With the bound in the message."""
    with pytest.raises(ValueError, match=message):
        cls(**options)


def _run_file(**algorithm):
    advantage = algorithm.pop("advantage", GroupNormConfig())
    options = attrs.evolve(Grpo(**algorithm), advantage=attrs.evolve(select("advantage", "group_norm"), options=advantage))
    return RunFile(
        model=ModelSpec(path="x"),
        data=select("data", "jsonl"),
        algorithm=attrs.evolve(select("algorithm", "grpo"), options=options),
    )


def test_a_group_of_one_is_refused_in_one_line():
    """It would train on nothing; the message has the mend. Against the batch's mean it may be."""
    problems = core_rl_check_config(config=_run_file(group_size=1))

    assert [(problem.path, "take at least 2" in problem.message) for problem in problems] == [("algorithm.group_size", True)]
    assert "\n" not in str(problems[0])
    assert core_rl_check_config(config=_run_file(group_size=2)) == []
    assert core_rl_check_config(config=_run_file(group_size=1, advantage=GroupNormConfig(mean_level="batch"))) == []


@pytest.mark.parametrize(
    ("options", "formula"),
    [
        (GroupNormConfig(), "A_i = (R_i - mean_group) / (sample std_group + 1e-06)"),
        (GroupNormConfig(std_level="none", leave_one_out="mean"), "A_i = R_i - mean_group, mean without i"),
        (GroupNormConfig(std_level="none", clip_high=2.0), "A_i = clip(R_i - mean_group, -inf, 2)"),
        (PpoClipConfig(), "l_t = -min(r_t A_t, clip(r_t, 0.8, 1.2) A_t), r_t = pi/pi_old"),
        (
            PpoClipConfig(two_sided_delta=4.0, dual_clip=3.0),
            "l_t = -min(min(r_t, 4) A_t, clip(r_t, 0.8, 1.2) A_t), r_t = pi/pi_old; A_t < 0: at most 3 |A_t|",
        ),
    ],
)
def test_formulas_have_the_values_in_them(options, formula):
    """As `core-rl config show --explain` prints them."""
    assert options.formula() == formula


def test_every_component_can_be_loaded():
    """Targets and options classes are where the components say."""
    components = [*core_rl_algorithms(), *core_rl_advantages(), *core_rl_losses()]

    assert [component.name for component in components] == ["grpo", "dr_grpo", "lite_ppo", "grpo_loo", "group_norm", "ppo_clip"]
    for component in components:
        options = load_reference(component.config)()
        assert component.target == component.config or load_reference(component.target)(options)


def test_options_are_read_without_torch():
    """Listing and checking must be quick."""
    code = "import sys, core_rl_grpo.plugin, core_rl_grpo.config, core_rl_grpo.checks; sys.exit('torch' in sys.modules)"

    assert run([sys.executable, "-c", code], check=False).returncode == 0
