"""A reward model learns a separable task, is saved as transformers reads it, and then is the reward of an online run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from subprocess import run

import pytest
import torch
import transformers

from core_rl.cli.main import main
from core_rl.config.load import load_run_file
from core_rl.hf.tokenizer import load_tokenizer
from core_rl_reward_model.config import BradleyTerryConfig, RewardModelRewardConfig
from core_rl_reward_model.scorer import ModelScorer

ROOT = Path(__file__).resolve().parents[4]
ONLINE = """
run: {{name: online, seed: 1, steps: 30, prompts_per_step: 8, dir: {dir}}}
model:
  init: random
  tokenizer: "characters:0123456789="
  config: {{model_type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 1, num_attention_heads: 2,
           max_position_embeddings: 16}}
data: {{name: jsonl, path: {root}/examples/data/larger_digit.jsonl, format: text}}
rewards: [{{name: reward_model, path: {model}}}]
sampling: {{max_new_tokens: 1}}
algorithm: {{name: grpo, group_size: 8, kl: {{coef: 0}}}}
train_engine: {{name: local, lr: 5e-3}}
loggers: [jsonl]
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The example's run folder, of two thirds of its steps."""
    folder = tmp_path_factory.mktemp("runs")
    file = ROOT / "examples" / "algorithms" / "reward_model.yaml"
    data = f"data.path={ROOT / 'examples' / 'data' / 'larger_digit_pairs.jsonl'}"
    assert main(["train", str(file), data, f"run.dir={folder}", "run.steps=100", "loggers=[jsonl]"]) == 0
    return next(path for path in (folder / "reward_model").iterdir() if path.is_dir() and not path.is_symlink())


def metrics_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_it_learns_which_answer_is_better(trained):
    """On pairs that it has not seen; before training all scores are 0."""
    rows = metrics_of(trained)

    assert rows[0]["eval/loss"] == pytest.approx(0.6931, abs=1e-3)
    assert rows[-1]["eval/rewards/accuracy"] > 0.9
    assert rows[-1]["eval/rewards/margin"] > 2.0


def test_the_saved_model_is_transformers_and_gives_the_score_of_training(trained, capsys):
    """`AutoModelForSequenceClassification` with one label; its margin on the held-out pairs is the one that was logged."""
    file = load_run_file(trained / "config.yaml")
    from core_rl_pairs.pairs import PairsData

    held_out = PairsData(file.data.options).load("eval", file.run.seed)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(trained / "model", dtype=torch.float32)
    tokenizer = load_tokenizer(file.model)
    scorer = ModelScorer(RewardModelRewardConfig(path=str(trained / "model"), device="cpu"))

    def theirs(pair, side):
        ids = torch.tensor([[*tokenizer.encode(pair.prompt + side), tokenizer.eos_token_id]])
        return model(ids).logits.item()

    margins = [theirs(pair, pair.chosen) - theirs(pair, pair.rejected) for pair in held_out]
    ours = [
        first - second
        for first, second in (
            scorer([scorer.tokens(pair.prompt, side, name="x") for side in (pair.chosen, pair.rejected)]) for pair in held_out
        )
    ]
    logged = metrics_of(trained)[-1]["eval/rewards/margin"]

    assert model.config.num_labels == 1
    assert sum(margins) / len(margins) == pytest.approx(logged, rel=1e-3)
    assert ours == pytest.approx(margins, rel=1e-3, abs=1e-4)
    assert main(["eval", str(trained), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["eval/rewards/margin"] == pytest.approx(logged, rel=1e-4)


def test_the_trained_model_is_the_reward_of_an_online_run(trained, tmp_path):
    """A policy that has never seen an answer finds out which digit scores high."""
    file = tmp_path / "online.yaml"
    file.write_text(ONLINE.format(dir=tmp_path / "runs", root=ROOT, model=trained / "model"))
    assert main(["train", str(file)]) == 0
    folder = next(path for path in (tmp_path / "runs" / "online").iterdir() if path.is_dir() and not path.is_symlink())
    rewards = [row["reward/mean"] for row in metrics_of(folder)]

    assert sum(rewards[-5:]) / 5 > sum(rewards[:5]) / 5 + 1.0


def test_a_reward_model_writes_nothing(trained, capsys):
    """`generate` says so in one line."""
    assert main(["generate", str(trained), "12="]) == 2
    assert "trains a model that scores sequences and writes none" in capsys.readouterr().err


def test_the_defaults(tmp_path):
    """Bradley-Terry without centring, the mean over pairs."""
    file = tmp_path / "run.yaml"
    file.write_text("model: {path: x}\ndata: {name: pairs, path: x}\nalgorithm: reward_model\n")
    options = load_run_file(file).algorithm.options

    assert (options.loss.name, options.loss.options, options.aggregation.name) == (
        "bradley_terry",
        BradleyTerryConfig(centre_coef=0.0),
        "prompt-mean",
    )
    assert BradleyTerryConfig(centre_coef=0.01).formula() == "l = -log sigmoid(s_c - s_r - margin) + 0.01 (s_c + s_r)^2"
    with pytest.raises(ValueError, match="centre_coef"):
        BradleyTerryConfig(centre_coef=-1.0)


def test_options_are_read_without_torch():
    """Listing and checking must be quick."""
    code = "import sys, core_rl_reward_model.plugin, core_rl_reward_model.config; sys.exit('torch' in sys.modules)"

    assert run([sys.executable, "-c", code], check=False).returncode == 0
