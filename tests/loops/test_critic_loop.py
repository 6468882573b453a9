"""The critic in the online loop: who is trained and when, where values come from, and real runs of PPO and VAPO."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from statistics import median
from types import SimpleNamespace

import attrs
import pytest
import torch

from core_rl.config.algorithm import AlgorithmConfig, CriticConfig, KlConfig
from core_rl.config.selection import select
from core_rl.data.sample import Group, Prompt, Sample, Turn
from core_rl.loops.clock import Clock
from core_rl.loops.experience import make_experience
from core_rl.loops.metrics import critic_metrics
from core_rl.loops.online import optimize
from core_rl.loops.run import train
from core_rl.roles.train import StepReport
from core_rl.testing.batches import random_batch


class Engine:
    """Says what it is asked for."""

    def __init__(self, name, calls):
        self.name, self.calls = name, calls

    def forward(self, batch, outputs, *, weights="current"):
        self.calls.append((self.name, weights, tuple(outputs)))
        level = {"policy": 0.25, "critic": 0.75}[self.name]
        return {name: torch.full((batch.num_tokens,), level).where(batch.loss_mask, 0.0) for name in outputs}

    def train_step(self, batch, objective, aggregation):
        self.calls.append((self.name, objective, aggregation, batch.num_sequences))
        return StepReport(loss=1.0, grad_norm=2.0, lr=0.5, num_tokens=1, num_micro_batches=1, metrics={"critic/loss": 3.0})


def algorithm(**changes):
    base = AlgorithmConfig(advantage=select("advantage", "x"), loss=select("loss", "x"))
    return attrs.evolve(base, **changes)


def parts_of(config, calls, **changes):
    own = config.critic is not None and not config.critic.shared
    fields = {
        "algorithm": config,
        "train": Engine("policy", calls),
        "critic": Engine("critic", calls) if own else None,
        "shares_critic": config.critic is not None and config.critic.shared,
        "value_objective": "value objective" if own else None,
        "value_aggregation": "value mean",
        "objective": SimpleNamespace(prepare=lambda batch, aggregation: batch, kl_coef=config.kl.coef),
        "aggregation": "policy mean",
        "teacher": None,
        "early_rejections": [],
        "late_rejections": [],
        "resampler": None,
        "reward_norm": None,
        "advantage_norm": None,
        "proximal": "recompute",
        "needs_reference": config.kl.coef > 0,
        "needs_entropy": False,
    }
    return SimpleNamespace(**fields | changes)


SESSION = SimpleNamespace(journal=SimpleNamespace(progress=lambda *_: None))


def trained(step, **critic):
    calls = []
    config = algorithm(critic=CriticConfig(**critic), minibatches=2, epochs=2)
    reports, critic_reports = optimize(parts_of(config, calls), SESSION, random_batch(0, num_groups=4), step)
    return [call[0] for call in calls], len(reports), len(critic_reports), calls


def test_policy_and_critic_learn_from_the_same_parts_of_the_batch():
    """Each minibatch of each epoch once, the critic with its own objective and its own mean."""
    names, policy, critic, calls = trained(1)

    assert names == ["critic", "policy"] * 4
    assert (policy, critic) == (4, 4)
    assert calls[0][1:3] == ("value objective", "value mean")
    assert calls[1][2] == "policy mean"
    assert [call[3] for call in calls[::2]] == [call[3] for call in calls[1::2]]


@pytest.mark.parametrize(("step", "names"), [(1, {"critic"}), (3, {"critic"}), (4, {"critic", "policy"})])
def test_the_critic_comes_first(step, names):
    """Three steps of warm-up: the policy stands still in them, and learns from the fourth on."""
    assert set(trained(step, warmup_steps=3)[0]) == names


def test_a_shared_critic_is_trained_by_the_policys_step():
    """There is no other engine."""
    assert set(trained(1, shared=True)[0]) == {"policy"}


def test_metrics_of_the_critic_stand_beside_the_policys():
    """Its own, and how its optimizer did; none without a critic."""
    report = StepReport(
        loss=1.0, grad_norm=2.0, lr=0.5, num_tokens=1, num_micro_batches=1, metrics={"critic/loss": 3.0, "x/y": 1.0}
    )

    assert critic_metrics([report]) == {
        "critic/loss": 3.0,
        "critic/optim/grad_norm": 2.0,
        "critic/optim/lr": 0.5,
        "critic/optim/skipped": 0.0,
    }
    assert critic_metrics([]) == {}


def group():
    def sample(reward):
        turns = [Turn(tokens=[3], generated=False), Turn(tokens=[4, 5], generated=True, logprobs=[-1.0, -1.0])]
        return Sample(prompt=prompt, turns=turns, finish_reason="stop", completion_text="", reward=reward)

    prompt = Prompt(id="p", text="1")
    return Group(prompt=prompt, samples=[sample(1.0), sample(0.0)])


def experience(config, calls):
    def advantage(batch):
        calls.append("advantage")
        returns = (batch["rewards"] + 0.5)[batch.sequence_ids].where(batch.loss_mask, 0.0)
        return {"advantages": (returns - batch["values"]).where(batch.loss_mask, 0.0), "returns": returns}

    return asyncio.run(make_experience(parts_of(config, calls, advantage=advantage), [group()], Clock(), step=1))


def test_values_of_a_critic_of_its_own_come_of_its_own_forward_pass():
    """After the policy's and the reference's, before the advantage."""
    calls = []
    batch, metrics = experience(algorithm(critic=CriticConfig(), kl=KlConfig(coef=0.1)), calls)

    assert calls == [
        ("policy", "current", ("logprobs",)),
        ("policy", "reference", ("logprobs",)),
        ("critic", "current", ("values",)),
        "advantage",
    ]
    assert batch["values"].tolist() == [0.0, 0.75, 0.75, 0.0, 0.75, 0.75]
    assert metrics["critic/explained_var"] == 0.0


def test_values_of_a_shared_critic_come_with_the_log_probabilities():
    """One pass for both."""
    calls = []
    batch, _ = experience(algorithm(critic=CriticConfig(shared=True)), calls)

    assert calls == [("policy", "current", ("logprobs", "values")), "advantage"]
    assert batch["values"].tolist() == [0.0, 0.25, 0.25, 0.0, 0.25, 0.25]


@pytest.mark.parametrize(("guess", "expected"), [((1.5, 0.5), 1.0), ((1.0, 0.5), 0.75), ((0.5, 1.5), -3.0), ((9.0, 8.0), 1.0)])
def test_explained_variance_by_hand(guess, expected):
    """Returns 1.5 and 0.5: 1 for the truth or the truth and a constant, negative for the opposite."""
    config, calls = algorithm(critic=CriticConfig()), []

    def advantage(batch):
        returns = torch.tensor([0.0, 1.5, 1.5, 0.0, 0.5, 0.5])
        return {"advantages": returns, "returns": returns}

    parts = parts_of(config, calls, advantage=advantage)
    parts.critic.forward = lambda batch, outputs: {"values": torch.tensor([0.0, guess[0], guess[0], 0.0, guess[1], guess[1]])}
    _, metrics = asyncio.run(make_experience(parts, [group()], Clock(), step=1))

    assert metrics["critic/explained_var"] == pytest.approx(expected)


RUN = """
run: {{name: small, seed: 3, steps: 4, prompts_per_step: 4, dir: {dir}, log_samples_every: 0}}
model:
  init: random
  tokenizer: "characters:0123456789+= "
  config: {{model_type: llama, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2,
           num_key_value_heads: 1, max_position_embeddings: 64, tie_word_embeddings: true}}
data: {{name: jsonl, path: {data}}}
sampling: {{max_new_tokens: 3}}
algorithm: {{name: ppo, group_size: 2, minibatches: 2, epochs: 2}}
train_engine: {{name: local, lr: 0.01}}
rewards: [{{name: function, function: "{reward}"}}]
loggers: [jsonl]
eval: {{every: 0}}
checkpoint: {{every: 2, keep: 9, export_hf: false}}
"""

REWARD = """
def reward(completion, answer):
    return float(completion[:1] == str(answer)) + 0.1 * completion.count("1")
"""

CASES = {
    "own": (),
    "own, another engine": ("algorithm.critic={train_engine: {name: local, lr: 0.003}}",),
    "shared": ("algorithm.critic={shared: true}",),
    "warm-up": ("algorithm.critic={warmup_steps: 3}",),
    "steered": ("algorithm.kl={coef: 0.1, target: 0.001, horizon: 20}", "algorithm.entropy_target=0.5"),
    "vapo": (
        "algorithm=vapo",
        "algorithm.advantage={length_adaptive_alpha: 1, lam_value: 1}",
        "algorithm.critic={warmup_steps: 1}",
    ),
    "turns": ("algorithm.advantage={name: gae, level: turn}",),
}


@pytest.fixture
def run_file(tmp_path):
    rows = [{"prompt": f"{a}+{b}=", "answer": (a + b) % 10} for a in range(4) for b in range(4)]
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "reward.py").write_text(REWARD)
    file = tmp_path / "run.yaml"
    file.write_text(RUN.format(dir=tmp_path / "runs", data=data, reward=f"{tmp_path / 'reward.py'}:reward"))
    return file


def folder_of(file):
    return next(path for path in (file.parent / "runs" / "small").iterdir() if path.is_dir() and not path.is_symlink())


def metrics_of(file):
    volatile = re.compile(r"time|perf/|rollout/\w+_s$")
    rows = [json.loads(line) for line in (folder_of(file) / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if not volatile.search(name)} for row in rows]


def tensors_of(folder):
    """Of the policy and of the critic, wherever they are saved."""
    from safetensors.torch import load_file

    return {
        f"{path.relative_to(folder)}:{name}": value
        for path in sorted(folder.rglob("*.safetensors"))
        for name, value in load_file(path).items()
    }


def checkpoint(file, step):
    return folder_of(file) / "checkpoints" / f"step-{step:06d}"


@pytest.mark.parametrize("case", CASES)
def test_resumed_equals_uninterrupted_bit_for_bit(run_file, case):
    """Policy, critic, both optimizers and what is steered go on from the checkpoint of step 2 as if nothing had been."""
    assert train(run_file, CASES[case], resume=None) == 0
    rows, tensors = metrics_of(run_file), tensors_of(checkpoint(run_file, 4))
    shutil.rmtree(checkpoint(run_file, 4))
    assert train(run_file, CASES[case], resume="latest") == 0

    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert metrics_of(run_file) == rows
    again = tensors_of(checkpoint(run_file, 4))
    assert again.keys() == tensors.keys()
    assert all(torch.equal(again[name], tensors[name]) for name in tensors)


def test_in_warm_up_the_policy_stands_still_and_the_critic_does_not(run_file):
    """Until step 3; then both move."""
    assert train(run_file, ("algorithm.critic={warmup_steps: 2}", "checkpoint.every=1"), resume=None) == 0
    saved = [tensors_of(checkpoint(run_file, step)) for step in (1, 2, 3)]
    policy = [name for name in saved[0] if not name.startswith("critic")]
    critic = [name for name in saved[0] if name.startswith("critic")]
    rows = metrics_of(run_file)

    assert policy
    assert all(torch.equal(saved[0][name], saved[1][name]) for name in policy)
    assert not all(torch.equal(saved[1][name], saved[2][name]) for name in policy)
    assert not all(torch.equal(saved[0][name], saved[1][name]) for name in critic)
    assert [row["optim/steps"] for row in rows] == [0.0, 0.0, 4.0, 4.0]
    assert [("policy/loss" in row, "critic/loss" in row) for row in rows] == [(False, True)] * 2 + [(True, True)] * 2


@pytest.mark.parametrize("shared", [False, True])
def test_a_critic_learns_what_a_prompt_is_worth(run_file, shared):
    """A reward that the prompt alone decides, and the policy's words do not: the critic comes to know it."""
    (run_file.parent / "reward.py").write_text("def reward(completion, answer):\n    return answer / 3\n")
    overrides = (
        "run.steps=40",
        "train_engine.lr=0.004",
        "run.prompts_per_step=12",
        "algorithm.group_size=1",
        "checkpoint.every=0",
        "checkpoint.at_end=false",
        f"algorithm.critic={{shared: {str(shared).lower()}, clip: null}}",
        "algorithm.kl.coef=0",
    )
    assert train(run_file, overrides, resume=None) == 0
    rows = metrics_of(run_file)
    errors, known = ([row[f"critic/{name}"] for row in rows] for name in ("error_abs", "explained_var"))

    assert max(known[:2]) < 0.3
    assert median(known[-9:]) > 0.5
    assert median(errors[-9:]) < 0.5 * median(errors[:3])
