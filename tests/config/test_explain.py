"""What an algorithm comes to, in words and formulas: every part, every option, every coefficient."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys

import attrs
import pytest

from core_rl.cli import explain as cli
from core_rl.cli.main import main
from core_rl.config.algorithm import AlgorithmConfig, CriticConfig
from core_rl.config.explain import as_records, explain
from core_rl.config.explain_settings import offline_parts
from core_rl.config.load import load_run_file
from core_rl.config.offline import OfflineConfig
from core_rl.config.selection import select
from core_rl.run.manifest import algorithm_line

RUN = """
model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}
data: {name: jsonl, path: rows.jsonl}
algorithm: grpo
sampling: {max_new_tokens: 7}
rewards: [{name: math, weight: 0.5}]
"""


@pytest.fixture
def explained(tmp_path):
    """Parts by their place, of the run file with changes."""

    def call(*overrides):
        path = tmp_path / "run.yaml"
        path.write_text(RUN)
        return {part.place: part for part in explain(load_run_file(path, overrides))}

    return call


def test_every_key_of_an_algorithm_is_spoken_of(explained):
    """No setting acts unseen: each has a part of its own, or stands in one."""
    places = {
        place.partition(".")[0]
        for place in explained("algorithm.rejections=[zero_variance]", "algorithm.extra_losses=[ppo_clip]")
    }
    told_elsewhere = {
        "group_size": "rewards",
        "entropy_coef": "entropy",
        "entropy_target": "entropy",
        "entropy_step": "entropy",
    }
    told_elsewhere |= {"epochs": "minimised", "minibatches": "minimised"}
    missing = {field.name for field in attrs.fields(AlgorithmConfig)} - places - told_elsewhere.keys()

    assert missing == set()
    assert set(told_elsewhere.values()) <= places


def test_a_plain_algorithm(explained):
    """Rewards with their weights, options with their values, the estimator's formula at its coefficient, what is minimised."""
    parts = explained()

    assert (parts["algorithm"].name, parts["rewards"].formula) == ("grpo", "R_i = 0.5 math")
    assert parts["loss"].options == {"clip_low": 0.2, "clip_high": 0.2, "dual_clip": None, "two_sided_delta": None}
    assert parts["kl"].name == "k3 in the loss"
    assert parts["kl"].formula == "l_t <- l_t + 0.04 KL_t, KL_t = e^-d + d - 1, d = log pi - log pi_ref"
    assert (parts["aggregation"].name, parts["aggregation"].paper) == ("seq-mean-token-mean", "2402.03300")
    assert parts["proximal"].name == "reuse (by auto)"
    assert parts["minimised"].formula == "sum_t w_t (l_t(ppo_clip) + kl.coef KL_t)"
    assert {parts[place].name for place in ("reward_norm", "advantage_norm", "entropy", "refill", "critic", "teacher")} == {
        "none"
    }


@pytest.mark.parametrize(
    ("overrides", "place", "formula"),
    [
        (("algorithm.kl.place=reward", "algorithm.kl.coef=0.1"), "kl", "r_t <- r_t - 0.1 KL_t, KL_t = e^-d + d - 1, d = log pi_old - log pi_ref"),
        (("algorithm.kl.place=advantage",), "kl", "A_t <- A_t + 0.04 (mean KL - KL_t)"),
        (("algorithm.kl.unbiased=true",), "kl", "l_t <- l_t + 0.04 pi/pi_old · KL_t"),
        (("algorithm.kl.target=6",), "kl", "coef <- coef (1 + clip(KL / 6 - 1, -0.2, 0.2) n / 10000)"),
        (("algorithm.entropy_coef=0.01",), "entropy", "l_t <- l_t - 0.01 H_t"),
        (("algorithm.entropy_target=0.2",), "entropy", "coef <- max(0, coef +- 0.005), from 0"),
        (("algorithm.proximal=loglinear",), "proximal", "log mu + alpha (sg(log pi) - log mu)"),
        (("algorithm.advantage_norm=whiten",), "advantage_norm", "x <- (x - mean) / sqrt(var + 1e-08)"),
        (("algorithm.aggregation=seq-mean-token-sum-norm",), "aggregation", "S = 7"),
        (("algorithm.extra_losses=[{name: ppo_clip, weight: 3}]",), "minimised", "+ 3 mean_t l_t(ppo_clip)"),
        (("algorithm.rejections=[zero_variance]",), "minimised", "weights_t l_t(ppo_clip)"),
    ],
)  # fmt: skip
def test_each_setting_has_its_symbols(explained, overrides, place, formula):
    """With the numbers of this run file."""
    assert formula in explained(*overrides)[place].formula


@pytest.mark.parametrize(
    ("critic", "place", "formula"),
    [
        (CriticConfig(), "critic", "l_t = max((V - R)^2 / 2, the same of V within V_old +- 0.2)"),
        (CriticConfig(huber_delta=2.0, clip=None), "critic", "l_t = huber_2(V - R)"),
        (CriticConfig(shared=True), "minimised", "sum_t w_t (l_t(ppo_clip) + kl.coef KL_t) + 0.5 mean_t l_t(critic)"),
    ],
)
def test_the_critics_loss(tmp_path, critic, place, formula):
    """Its own error where it has a model; a share of the sum where it is a head on the policy."""
    (tmp_path / "run.yaml").write_text(RUN)
    file = load_run_file(tmp_path / "run.yaml")
    options = attrs.evolve(file.algorithm.options, critic=critic)
    parts = {part.place: part for part in explain(attrs.evolve(file, algorithm=attrs.evolve(file.algorithm, options=options)))}

    assert parts[place].formula == formula


def test_papers_of_settings(explained):
    """Where a setting is someone's idea, it says whose."""
    parts = explained(
        "algorithm.kl={unbiased: true, target: 6}",
        "algorithm.rejections=[zero_variance]",
        "algorithm.refill={}",
        "algorithm.entropy_target=0.2",
    )

    assert parts["kl"].paper == "2512.02556, 1909.08593"
    assert (parts["refill"].paper, parts["refill"].options["max_rounds"]) == ("2503.14476", 10)
    assert parts["entropy"].paper == "2505.22312"


def test_components_within_components_are_parts_too(explained):
    """Under the key where they stand, and not among the options of the outer one."""
    parts = explained("algorithm.advantage={name: distill, base: group_norm}", "algorithm.teacher.model.path=x")

    assert parts["advantage.base"].name == "group_norm"
    assert "base" not in parts["advantage"].options
    assert parts["teacher"].name == "x"
    assert "the sampled token" in parts["teacher"].words


def test_an_offline_algorithm_has_its_parts():
    """Loss, extra losses with weights, aggregation, reference; an option that is empty is none."""
    extra = attrs.evolve(select("loss", "nll"), weight=0.1, options=None)
    algorithm = OfflineConfig(loss=attrs.evolve(select("loss", "dpo"), options=None), extra_losses=(extra,))
    parts = {part.place: part for part in offline_parts(algorithm)}

    assert parts["extra_losses"].options == {"weight": 0.1}
    assert parts["minimised"].formula == "sum_t w_t l_t(dpo) + 0.1 mean_t l_t(nll)"
    assert set(parts) == {"loss", "extra_losses", "aggregation", "teacher", "rows", "minimised"}
    assert parts["rows"].options.keys() == {field.name for field in attrs.fields(OfflineConfig)} - set(parts)
    assert algorithm_line(algorithm) == "loss dpo; 0.1 · loss nll; token-mean"


@pytest.fixture
def run_file(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(RUN)
    return str(path)


def test_the_command_prints_plain_text(run_file, capsys):
    """One line for each statement under the names of the parts; no colours where there is no terminal."""
    assert main(["config", "show", run_file, "--explain"]) == 0
    printed = capsys.readouterr().out

    assert printed.startswith("algorithm       grpo")
    assert (
        "\nrewards         math\n                of each of the 8 samples of a prompt\n                R_i = 0.5 math\n"
        in printed
    )
    assert "\033" not in printed
    assert "critic          none\nteacher         none\n" in printed
    assert printed.endswith("losses are minimised\n")


def test_the_command_gives_json(run_file, capsys):
    """The same as the manifest has."""
    assert main(["config", "show", run_file, "--explain", "--json"]) == 0

    assert json.loads(capsys.readouterr().out) == as_records(explain(load_run_file(run_file)))


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_lines_fit_and_have_colours(run_file, monkeypatch):
    """Long statements are broken under their own margin."""
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((60, 20)))
    cli.print_parts(explain(load_run_file(run_file)))
    lines = re.sub(r"\033\[\d*m", "", screen.getvalue()).splitlines()

    assert "\033[1mgrpo\033[0m" in screen.getvalue()
    assert max(len(line) for line in lines if "arXiv" not in line) <= 60
    assert "".join(lines).count("R_i = 0.5 math") == 1


def test_the_record_is_torch_free(run_file):
    """Explaining is as quick as checking."""
    code = f"import sys; from core_rl.cli.main import main; main(['config', 'show', {run_file!r}, '--explain']); sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0
