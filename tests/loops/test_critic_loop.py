"""The critic in the online loop: who is trained and when, where values come from, and real runs of PPO and VAPO."""

from __future__ import annotations

import asyncio
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
