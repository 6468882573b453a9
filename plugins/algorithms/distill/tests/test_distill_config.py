"""The algorithms as sets of defaults, the options' bounds, and what a run file may not say."""

from __future__ import annotations

import subprocess
import sys

import pytest

from core_rl.capabilities import check_capabilities
from core_rl.config.load import load_run_file
from core_rl.config.offline import OfflineConfig
from core_rl.config.selection import select
from core_rl.config.teacher import TeacherTokens, teacher_tokens
from core_rl.errors import CapabilityError, ConfigError
from core_rl.loops.parts import proximal_mode
from core_rl.plugins.references import load_reference
from core_rl_distill import plugin
from core_rl_distill.config import DistillConfig, DistillKlConfig, GjsdConfig

RUN = """
model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}
data: {name: jsonl, path: rows.jsonl}
algorithm: {name: NAME, teacher: {model: {path: teacher}}}
"""


@pytest.fixture
def load(tmp_path):
    """The run file of an algorithm with changes."""

    def call(name, *overrides):
        path = tmp_path / "run.yaml"
        path.write_text(RUN.replace("NAME", name))
        return load_run_file(path, overrides)

    return call


def test_opd_is_a_policy_gradient_of_the_teacher_alone(load):
    """No rewards, no KL, each token by its own log-ratio; old log-probabilities are computed, since the advantage reads them."""
    algorithm = load("opd").algorithm.options

    assert (algorithm.advantage.name, algorithm.loss.name, algorithm.aggregation.name) == ("distill", "ppo_clip", "token-mean")
    assert algorithm.advantage.options == DistillConfig()
    assert (DistillConfig().coef, DistillConfig().discount, DistillConfig().base) == (1.0, 0.0, None)
    assert (algorithm.kl.coef, algorithm.group_size, proximal_mode(algorithm)) == (0.0, 4, "recompute")
    assert teacher_tokens(algorithm) is None


def test_gkd_is_the_papers_divergence(load):
    """Jensen-Shannon with beta 0.5 over the whole vocabulary; nothing asks for old log-probabilities."""
    algorithm = load("gkd").algorithm.options

    assert (algorithm.advantage.name, algorithm.loss.name, algorithm.loss.options) == ("zero", "gjsd", GjsdConfig())
    assert (GjsdConfig().beta, GjsdConfig().top_k, GjsdConfig().temperature) == (0.5, None, 1.0)
    assert (algorithm.group_size, proximal_mode(algorithm)) == (1, "reuse")
    assert teacher_tokens(algorithm) == TeacherTokens(top_k=None)


def test_kd_is_the_forward_kl_on_conversations(load):
    """Offline: rows of a data set, no sampling, the teacher beside them."""
    algorithm = load("kd", "data={name: conversations, path: rows.jsonl}").algorithm.options

    assert isinstance(algorithm, OfflineConfig)
    assert (algorithm.loss.name, algorithm.loss.options.beta, algorithm.aggregation.name) == ("gjsd", 0.0, "token-mean")
    assert teacher_tokens(algorithm) == TeacherTokens(top_k=None)


def test_rewards_and_a_teacher_go_together(load):
    """In the advantage, or as an extra loss of another algorithm; a part within a part has its needs heard."""
    file = load("opd", "algorithm.advantage.base=group_norm", "rewards=[math]", "algorithm.loss.clip_high=0.28")
    mixed = load("grpo", "algorithm.extra_losses=[{name: distill_kl, estimator: k2, weight: 0.1}]", "rewards=[math]")
    check_capabilities(file)
    check_capabilities(mixed)

    assert file.algorithm.options.advantage.options.base.name == "group_norm"
    assert mixed.algorithm.options.extra_losses[0].options.estimator.name == "k2"
    with pytest.raises(CapabilityError, match=r"algorithm.advantage.base: group_norm needs rewards"):
        check_capabilities(load("opd", "algorithm.advantage.base=group_norm"))


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("opd", ("algorithm.teacher.model.path=null",), "which teacher?"),
        ("grpo", (), "algorithm.teacher: nothing reads it"),
        ("opd", ("algorithm.teacher.train_engine=local", "algorithm.teacher.rollout_engine=local"), "give train_engine or rollout_engine"),
        ("gkd", ("algorithm.teacher.rollout_engine=local",), "a loss asks for the whole vocabulary: set top_k and ids_from: teacher"),
        (
            "gkd",
            ("algorithm.teacher.rollout_engine=local", "algorithm.loss.top_k=4", "algorithm.loss.ids_from=student"),
            "the 4 likeliest tokens of the student: set top_k and ids_from: teacher",
        ),
        (
            "gkd",
            ("algorithm.loss.top_k=4", "algorithm.extra_losses=[{name: gjsd, top_k: 8}]"),
            r"extra_losses\[0\]: this loss asks for the 8 likeliest tokens of the teacher, and algorithm.loss for the 4",
        ),
        (
            "kd",
            ("data={name: conversations, path: rows.jsonl}", "algorithm.teacher.rollout_engine=local", "algorithm.loss.top_k=4"),
            "an offline run keeps no engine that samples",
        ),
        ("gkd", ("algorithm.loss.top_k=1", "algorithm.loss.tail=renormalise"), "with top_k 1 both sides are 1"),
        ("gkd", ("algorithm.loss.top_k=4", "algorithm.loss.temperature=2"), "take tail: renormalise, or top_k: null"),
        ("gkd", ("algorithm.loss.beta=1.5",), "beta"),
        ("opd", ("algorithm.loss={name: distill_kl, estimator: k1}",), "knows nothing of the teacher"),
        ("opd", ("algorithm.advantage.discount=1.1",), "discount"),
        ("opd", ("algorithm.advantage.coef=0",), "coef"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_before_a_model_loads(load, name, overrides, message):
    """One line with the mend."""
    with pytest.raises(ConfigError, match=message) as caught:
        load(name, *overrides)

    assert len(caught.value.problems) == 1


def test_without_a_teacher_the_algorithm_says_what_to_give(load):
    """The message has the key."""
    with pytest.raises(
        CapabilityError, match=r"distill needs a teacher, and algorithm.teacher is null: give `teacher: \{model:"
    ):
        check_capabilities(load("opd", "algorithm.teacher=null"))


@pytest.mark.parametrize(
    ("options", "formula"),
    [
        (DistillConfig(), "A_t = log teacher_t - log pi_old_t"),
        (DistillConfig(coef=0.5, base=select("advantage", "group_norm")), "A_t = 0.5 (log teacher_t - log pi_old_t) + 1 A_t(group_norm)"),
        (DistillConfig(discount=0.9), "A_t = sum_(j >= t) 0.9^(j - t) (log teacher_j - log pi_old_j)"),
        (DistillKlConfig(unbiased=True), "l_t = pi/pi_old · k3(d_t), d = log pi - log teacher of the sampled token"),
        (GjsdConfig(beta=0.0), "l_t = sum_v T log(T / S), v all tokens"),
        (GjsdConfig(beta=1.0, top_k=32), "l_t = sum_v S log(S / T), v the 32 likeliest of the teacher, and one outcome more for all the rest"),
        (GjsdConfig(temperature=2.0), "l_t = 0.5 KL(T || M) + 0.5 KL(S || M), M = 0.5 S + 0.5 T, v all tokens, logits / 2"),
    ],
)  # fmt: skip
def test_formulas_have_the_values_in_them(options, formula):
    """As `core-rl config show --explain` prints them."""
    assert options.formula() == formula


def test_every_component_can_be_loaded():
    """Targets and options classes are where the components say."""
    found = [*plugin.core_rl_algorithms(), *plugin.core_rl_advantages(), *plugin.core_rl_losses()]

    assert [component.name for component in found] == ["opd", "gkd", "kd", "distill", "zero", "distill_kl", "gjsd"]
    for component in found:
        assert load_reference(component.target)
        assert component.config is None or load_reference(component.config)()


def test_options_are_read_without_torch():
    """Listing and checking must be quick."""
    code = "import sys, core_rl_distill.plugin, core_rl_distill.config; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
