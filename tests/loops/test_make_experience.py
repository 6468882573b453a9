"""From scored groups to a batch to train on, part by part: what each gets to see, and in which order."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
import torch

from core_rl.builtin.config import MomentsConfig, WhitenConfig
from core_rl.builtin.normalisers import Moments, Whiten
from core_rl.config.algorithm import KlConfig
from core_rl.data.sample import Group, Prompt, RewardPart, Sample, Turn, VersionSpan
from core_rl.loops.clock import Clock
from core_rl.loops.experience import make_experience
from core_rl.roles.scoring import Verdict

STEP = 7


def sample(reward, tokens=2):
    prompt = Prompt(id="p", text="1")
    turns = [
        Turn(tokens=[3], generated=False),
        Turn(
            tokens=[4] * tokens,
            generated=True,
            logprobs=[-1.0] * tokens,
            versions=[VersionSpan(start=0, end=tokens, version=3)],
        ),
    ]
    parts = {"judge": RewardPart(value=reward, weight=1.0)}
    return Sample(prompt=prompt, turns=turns, finish_reason="stop", completion_text="1", reward=reward, reward_parts=parts)


def groups(*rewards):
    prompt = Prompt(id="p", text="1")
    return [Group(prompt=prompt, samples=[sample(reward, 2 + i) for i, reward in enumerate(row)]) for row in rewards]


class Engine:
    """Log-probabilities of -2 from the policy and -3 from the reference, entropies that rise; every call is remembered."""

    def __init__(self):
        self.calls = []

    def forward(self, batch, outputs, *, weights="current"):
        self.calls.append((weights, tuple(outputs)))
        filled = {"logprobs": -2.0 if weights == "current" else -3.0}
        ramp = torch.arange(batch.num_tokens, dtype=torch.float32)
        return {name: torch.full_like(ramp, filled[name]) if name in filled else ramp for name in outputs}


def by_reward(batch):
    """An advantage: the sequence's reward at each of its tokens."""
    return {"advantages": batch["rewards"].nan_to_num(0.0)[batch.sequence_ids].where(batch.loss_mask, 0.0)}


def made(samples, **changes):
    """(batch, metrics, calls of the engine) of these parts."""
    kl = changes.pop("kl", KlConfig())
    engine = Engine()
    parts = {
        "train": engine,
        "teacher": None,
        "critic": None,
        "shares_critic": False,
        "early_rejections": [],
        "late_rejections": [],
        "proximal": "recompute",
        "needs_entropy": False,
        "needs_reference": kl.coef > 0,
        "reward_norm": None,
        "advantage": by_reward,
        "advantage_norm": None,
        "resampler": None,
        "algorithm": SimpleNamespace(kl=kl),
        "objective": SimpleNamespace(kl_coef=kl.coef),
        "file": SimpleNamespace(run=SimpleNamespace(seed=1)),
    }
    batch, metrics = asyncio.run(make_experience(SimpleNamespace(**parts | changes), samples, Clock(), step=STEP))
    return batch, metrics, engine.calls


def test_rewards_are_normalised_before_advantages():
    """What an advantage reads has mean 0 over the batch; the rewards as they were stay beside."""
    batch, _, _ = made(groups([1.0, 0.0], [5.0, 2.0]), reward_norm=Moments(MomentsConfig(std_level="none")))

    assert batch["rewards"].tolist() == [-1.0, -2.0, 3.0, 0.0]
    assert batch["raw_rewards"].tolist() == [1.0, 0.0, 5.0, 2.0]
    assert batch["advantages"][batch.loss_mask].unique().tolist() == [-2.0, -1.0, 0.0, 3.0]


def test_rewards_are_normalised_over_their_group():
    """The normaliser is told whose samples they are."""
    norm = Moments(MomentsConfig(mean_level="group", std_level="none"))

    assert made(groups([1.0, 0.0], [5.0, 2.0]), reward_norm=norm)[0]["rewards"].tolist() == [0.5, -0.5, 1.5, -1.5]


def test_advantages_are_normalised_over_tokens():
    """Mean 0 and variance 1 over the mask: a long sequence counts by its length."""
    batch, metrics, _ = made(groups([1.0, 0.0], [5.0, 2.0]), advantage_norm=Whiten(WhitenConfig()))
    inside = batch["advantages"][batch.loss_mask]

    assert inside.mean().item() == pytest.approx(0.0, abs=1e-6)
    assert inside.var().item() == pytest.approx(1.0, rel=1e-5)
    assert not batch["advantages"][~batch.loss_mask].any()
    assert metrics["advantage/max"] == pytest.approx(inside.max().item())


def test_a_kl_penalty_comes_between_the_two():
    """Rewards normalised, less coef · KL of the sequence: -0.1 for each of its tokens (k1 is 1)."""
    kl = KlConfig(coef=0.1, estimator="k1", place="reward")
    batch, metrics, _ = made(groups([1.0, 0.0]), kl=kl, reward_norm=Moments(MomentsConfig(std_level="none")))

    assert batch["rewards"].tolist() == pytest.approx([0.5 - 0.2, -0.5 - 0.3])
    assert metrics["kl/penalty"] == pytest.approx(0.1)


def test_a_penalty_on_advantages_comes_last():
    """Every token has the same KL, so that the centred penalty takes nothing from the whitened advantages."""
    kl = KlConfig(coef=0.1, estimator="k1", place="advantage")
    plain, charged = (made(groups([1.0, 0.0]), kl=one, advantage_norm=Whiten(WhitenConfig()))[0] for one in (KlConfig(), kl))

    assert torch.allclose(charged["advantages"], plain["advantages"], atol=1e-6)


def test_one_pass_gives_all_that_is_asked_of_the_policy():
    """Old log-probabilities and entropies come together; the reference's on their own."""
    batch, _, calls = made(groups([1.0, 0.0]), needs_entropy=True, kl=KlConfig(coef=0.1))

    assert calls == [("current", ("logprobs", "entropy")), ("reference", ("logprobs",))]
    assert batch["entropy"].tolist() == list(range(batch.num_tokens))
    assert set(batch["old_logprobs"].tolist()) == {-2.0}


@pytest.mark.parametrize(
    ("proximal", "calls", "old"),
    [("recompute", 1, -2.0), ("rollout", 0, -1.0), ("reuse", 0, None), ("loglinear", 0, None)],
)
def test_where_the_old_policy_comes_from(proximal, calls, old):
    """A pass of its own, the sampler, or nothing before training."""
    batch, _, seen = made(groups([1.0, 0.0]), proximal=proximal)

    assert len(seen) == calls
    assert ("old_logprobs" in batch) == (old is not None)
    assert old is None or set(batch["old_logprobs"][batch.loss_mask].tolist()) == {old}


def test_loglinear_knows_how_old_a_token_is():
    """Step 7 trains version 6; version 3 wrote: alpha is (6 - 1 - 3) / (6 - 3). A prompt has none."""
    batch, _, _ = made(groups([1.0, 0.0]), proximal="loglinear")

    assert batch["proximal_alpha"][batch.loss_mask].tolist() == pytest.approx([2 / 3] * int(batch.loss_mask.sum()))
    assert not batch["proximal_alpha"][~batch.loss_mask].any()


def weighs(value, seen):
    def rejection(batch):
        seen.append(int(batch.loss_mask.sum()))
        return Verdict(keep=torch.ones_like(batch.loss_mask), weights=torch.full((batch.num_tokens,), value))

    return rejection


def drops_last(seen):
    """Leaves out the last sequence, and says so."""

    def rejection(batch):
        seen.append("old_logprobs" in batch)
        return Verdict(keep=batch.sequence_ids < batch.num_sequences - 1, metrics={"drops/own": 1.0})

    return rejection


def test_rejections_see_what_those_before_them_left_and_weights_multiply():
    """Two sequences of 2 and 3 tokens; the second leaves before anything is known of the policy."""
    seen, before = [], []
    batch, metrics, _ = made(
        groups([1.0, 0.0]), early_rejections=[drops_last(before)], late_rejections=[weighs(0.5, seen), weighs(3.0, seen)]
    )

    assert before == [False]
    assert seen == [2, 2]
    assert set(batch["weights"].tolist()) == {1.5}
    assert batch.num_sequences == 2
    assert (metrics["batch/rejected_frac"], metrics["batch/loss_tokens"], metrics["drops/own"]) == (
        pytest.approx(0.6),
        2.0,
        1.0,
    )


def test_late_rejections_know_the_old_policy_and_leave_statistics_alone():
    """Advantages are those of all samples, dropped ones too."""
    seen = []
    norm = Moments(MomentsConfig(std_level="none"))
    batch, _, _ = made(groups([1.0, 0.0]), late_rejections=[drops_last(seen)], reward_norm=norm)

    assert seen == [True]
    assert batch["advantages"][batch.loss_mask].tolist() == [0.5, 0.5]


def test_nothing_is_computed_where_nothing_is_left():
    """An empty mask: no pass, advantages of zeros, no advantage metrics."""
    batch, metrics, calls = made(groups([1.0]), early_rejections=[drops_last([])], kl=KlConfig(coef=0.1, place="reward"))

    assert calls == []
    assert not batch["advantages"].any()
    assert metrics["batch/rejected_frac"] == 1.0
    assert "advantage/mean" not in metrics


def test_a_resampler_draws_last():
    """Sequences with repetition, with all that was made of them; the seed is of the step."""
    drawn = []

    def resampler(batch, seed):
        drawn.append((seed, "advantages" in batch, "old_logprobs" in batch))
        return [1, 1, 0]

    batch, metrics, _ = made(groups([1.0, 0.0]), resampler=resampler)
    again = made(groups([1.0, 0.0]), resampler=resampler)[0]

    assert batch["raw_rewards"].tolist() == [0.0, 0.0, 1.0]
    assert batch.lengths.tolist() == [4, 4, 3]
    assert metrics["batch/resampled_frac"] == pytest.approx(2 / 3)
    assert drawn[0][1:] == (True, True)
    assert drawn[0] == drawn[1]
    assert torch.equal(batch.tokens, again.tokens)
