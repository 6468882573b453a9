"""PPO and VAPO as run files name them: what they resolve to, and what is refused."""

from __future__ import annotations

import sys
from subprocess import run

import pytest

from core_rl.capabilities import check_capabilities
from core_rl.config.load import load_run_file
from core_rl.errors import CapabilityError, ConfigError
from core_rl.loops.parts import needs_reference, proximal_mode
from core_rl.plugins.references import load_reference
from core_rl_ppo import plugin
from core_rl_ppo.config import GaeConfig, PositiveNllConfig, Ppo, Vapo

RUN = """
model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}
data: {name: jsonl, path: rows.jsonl}
rewards: [math]
"""


@pytest.fixture
def load(tmp_path):
    def loaded(*overrides):
        file = tmp_path / "run.yaml"
        file.write_text(RUN)
        return load_run_file(file, overrides)

    return loaded


def test_ppo_is_the_papers(load):
    """GAE and PPO-clip, a critic, KL in the reward, whitened over the batch, one sample a prompt."""
    ppo = load("algorithm=ppo").algorithm.options

    assert isinstance(ppo, Ppo)
    assert (ppo.group_size, ppo.advantage.name, ppo.loss.name, ppo.aggregation.name) == (1, "gae", "ppo_clip", "token-mean")
    assert (ppo.advantage.options.gamma, ppo.advantage.options.lam, ppo.advantage.options.lam_value) == (1.0, 1.0, None)
    assert (ppo.advantage.options.level, ppo.advantage.options.between) == ("token", "carry")
    assert (ppo.loss.options.clip_low, ppo.loss.options.clip_high, ppo.loss.options.dual_clip) == (0.2, 0.2, None)
    assert (ppo.kl.coef, ppo.kl.estimator.name, ppo.kl.place) == (0.02, "k1", "reward")
    assert ppo.advantage_norm.name == "whiten"
    assert (ppo.critic.shared, ppo.critic.clip, ppo.critic.warmup_steps) == (False, 0.2, 0)
    assert (needs_reference(ppo), proximal_mode(ppo)) == (True, "recompute")


def test_vapo_is_the_papers(load):
    """Lambda by length for the policy, 1 for the critic, which comes first; 0.28; NLL 0.1; no KL, no reference."""
    vapo = load("algorithm=vapo").algorithm.options
    extra = vapo.extra_losses[0]

    assert isinstance(vapo, Vapo)
    assert (vapo.advantage.options.length_adaptive_alpha, vapo.advantage.options.lam_value) == (0.05, 1.0)
    assert (vapo.loss.options.clip_low, vapo.loss.options.clip_high) == (0.2, 0.28)
    assert (extra.name, extra.weight, extra.options) == ("positive_nll", 0.1, PositiveNllConfig(threshold=0.0))
    assert (vapo.critic.warmup_steps, vapo.kl.coef, vapo.aggregation.name) == (50, 0.0, "token-mean")
    assert vapo.group_size > 1
    assert not needs_reference(vapo)


def test_one_part_is_changed_and_the_others_stay(load):
    """As a user writes it."""
    ppo = load("algorithm=ppo", "algorithm.advantage.lam=0.95", "algorithm.critic.shared=true").algorithm.options

    assert (ppo.advantage.name, ppo.advantage.options.lam, ppo.advantage.options.gamma) == ("gae", 0.95, 1.0)
    assert ppo.critic.shared


@pytest.mark.parametrize(
    "overrides", [("algorithm=ppo", "algorithm.critic=null"), ("algorithm=grpo", "algorithm.advantage=gae")]
)
def test_values_without_a_critic_are_refused(load, overrides):
    """With the mend in the line."""
    with pytest.raises(CapabilityError, match=r"gae needs values, and algorithm.critic is null: give `critic: \{\}`"):
        check_capabilities(load(*overrides))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("algorithm=vapo", "sampling.max_new_tokens=20"), "0.05 makes lambda 0 up to 20 tokens.*is 20: take more than 0.05"),
        (("algorithm=vapo", "algorithm.advantage.lam=0.9"), "leaves lam, 0.9, without a reader"),
        (("algorithm=vapo", "algorithm.critic.shared=true"), "a shared critic learns with the policy"),
        (("algorithm=vapo", "algorithm.advantage.length_adaptive_alpha=0"), "length_adaptive_alpha"),
        (("algorithm=vapo", "algorithm.advantage.level=turn"), "length_adaptive_alpha counts tokens"),
        (("algorithm=ppo", "algorithm.advantage={name: gae, level: turn, between: zero}"), "zero speaks of tokens"),
        (("algorithm=ppo", "algorithm.advantage.gamma=1.5"), "gamma"),
        (("algorithm=ppo", "algorithm.advantage.lam_value=-1"), "lam_value"),
        (("algorithm=grpo", "algorithm.critic={}"), "nothing reads its values"),
        (("algorithm=ppo", "algorithm.kl={coef: 0, target: 0.1}"), "0 stays 0 however it is steered"),
        (("algorithm=ppo", "algorithm.proximal=reuse"), "kl.place reward needs them before: take recompute"),
    ],
)
def test_what_makes_no_sense_is_refused_before_a_model_is_loaded(load, overrides, message):
    """One line that says what is wrong and how to mend it."""
    with pytest.raises(ConfigError, match=message):
        load(*overrides)


def test_a_lambda_by_length_that_can_act_is_accepted(load):
    """One token more than where it is 0."""
    assert load("algorithm=vapo", "sampling.max_new_tokens=21").algorithm.name == "vapo"


@pytest.mark.parametrize(
    ("options", "formula"),
    [
        (GaeConfig(), "A_t = delta_t + A_(t+1), delta_t = r_t + V_(t+1) - V_t, t a token; R_t = V_t + A_t"),
        (
            GaeConfig(gamma=0.5, lam=0.5, level="turn"),
            "A_t = delta_t + 0.25 A_(t+1), delta_t = r_t + 0.5 V_(t+1) - V_t, t a turn; R_t = V_t + A_t",
        ),
        (
            GaeConfig(length_adaptive_alpha=0.05, lam_value=1.0),
            (
                "A_t = delta_t + max(0, 1 - 1 / (0.05 L_i)) A_(t+1), delta_t = r_t + V_(t+1) - V_t, t a token; "
                "R_t = V_t + B_t, B_t = delta_t + B_(t+1)"
            ),
        ),
        (
            GaeConfig(lam=0.0, lam_value=0.9),
            "A_t = delta_t, delta_t = r_t + V_(t+1) - V_t, t a token; R_t = V_t + B_t, B_t = delta_t + 0.9 B_(t+1)",
        ),
        (PositiveNllConfig(threshold=0.5), "l_t = -log pi(t), over the tokens of samples with R > 0.5"),
    ],
)
def test_formulas_have_their_own_values(options, formula):
    """One ascii line."""
    assert options.formula() == formula


def test_every_component_can_be_loaded():
    """Targets and options classes are where the components say; each has a paper."""
    components = [*plugin.core_rl_algorithms(), *plugin.core_rl_advantages(), *plugin.core_rl_losses()]

    assert [component.name for component in components] == ["ppo", "vapo", "gae", "positive_nll"]
    assert all(component.paper and component.summary for component in components)
    for component in components:
        options = load_reference(component.config)()
        assert component.target == component.config or load_reference(component.target)(options)


def test_options_are_read_without_torch():
    """Listing and checking must be quick."""
    code = "import sys, core_rl_ppo.plugin, core_rl_ppo.config, core_rl_ppo.checks; sys.exit('torch' in sys.modules)"

    assert run([sys.executable, "-c", code], check=False).returncode == 0
