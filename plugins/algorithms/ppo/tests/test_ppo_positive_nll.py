"""The loss `positive_nll`, by itself and as VAPO adds it."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.config.algorithm import CriticConfig, KlConfig
from core_rl.numerics.aggregation import Aggregator
from core_rl.objective import PolicyObjective
from core_rl.objective_extras import ExtraLoss
from core_rl.objective_value import ValueLoss
from core_rl.testing.batches import in_double, random_batch
from core_rl.testing.invariance import gradient
from core_rl_grpo.config import PpoClipConfig
from core_rl_grpo.ppo_clip import PpoClip
from core_rl_ppo.config import PositiveNllConfig
from core_rl_ppo.positive_nll import PositiveNll

from .ppo_reference import rows


def scored(seed, **arguments):
    """Half of the sequences are right, one of them failed."""
    batch = random_batch(seed, **arguments)
    right = torch.arange(batch.num_sequences) % 2
    raw = right.float().index_fill(0, torch.tensor([0]), math.nan)
    return batch.with_sequences(raw_rewards=raw)


@pytest.mark.parametrize("threshold", [0.0, 0.5, -1.0, 1.0])
def test_value_and_gradient_are_those_of_imitation(threshold):
    """-log pi and slope -1 on the tokens of what is above the threshold, 0 on all others."""
    batch = in_double(scored(1, num_groups=5))
    logprobs = batch["logprobs"].clone().requires_grad_()
    loss = PositiveNll(PositiveNllConfig(threshold=threshold))
    values = loss(logprobs, batch).values
    values.sum().backward()
    expected, slopes = [], []
    for reward, (row,) in zip(batch["raw_rewards"].tolist(), rows(batch, "logprobs"), strict=True):
        right = reward > threshold
        expected += [-x if right else 0.0 for x in row]
        slopes += [-1.0 if right else 0.0 for _ in row]

    assert values.tolist() == expected
    assert logprobs.grad.tolist() == slopes
    assert loss.mask(batch).tolist() == [slope != 0 for slope in slopes]


def test_rewards_are_those_before_normalisation():
    """A normalised reward says nothing of right and wrong."""
    batch = scored(2).with_sequences(rewards=torch.full((scored(2).num_sequences,), -7.0))

    assert PositiveNll(PositiveNllConfig()).mask(batch).any()


@pytest.mark.parametrize("extreme", [-50.0, -1e4, 0.0])
def test_extreme_log_probabilities_stay_finite(extreme):
    """Probability 0 and 1, value and gradient."""
    batch = scored(3)
    logprobs = torch.full((batch.num_tokens,), extreme, requires_grad=True)
    values = PositiveNll(PositiveNllConfig())(logprobs, batch).values
    values.sum().backward()

    assert values.isfinite().all()
    assert logprobs.grad.isfinite().all()


def vapo(critic=False):
    extras = [ExtraLoss(name="positive_nll", loss=PositiveNll(PositiveNllConfig()), weight=0.1)]
    if critic:
        value = ValueLoss(CriticConfig(clip=0.2))
        extras.append(ExtraLoss(name="value", loss=value, weight=0.5, aggregation=Aggregator("token-mean")))
    return PolicyObjective(PpoClip(PpoClipConfig(clip_high=0.28)), kl=KlConfig(), extras=extras)


@pytest.mark.parametrize("seed", range(4))
def test_vapo_adds_a_tenth_of_the_mean_over_its_own_tokens(seed):
    """The extra term: 0.1 times the mean of -log pi over the tokens of the right sequences, whatever the others are."""
    batch = scored(seed, num_groups=5)
    right = [
        x
        for reward, (row, mask) in zip(batch["raw_rewards"].tolist(), rows(batch, "logprobs", "loss_mask"), strict=True)
        for x, m in zip(row, mask, strict=True)
        if m and reward > 0
    ]
    plain = PolicyObjective(PpoClip(PpoClipConfig(clip_high=0.28)), kl=KlConfig())
    aggregation = Aggregator("token-mean")
    with_nll, without = gradient(vapo(), aggregation, batch), gradient(plain, aggregation, batch)
    own = PositiveNll(PositiveNllConfig()).mask(batch) & batch.loss_mask

    assert len(right) > 0
    assert with_nll.loss - without.loss == pytest.approx(-0.1 * sum(right) / len(right), abs=1e-6)
    assert with_nll.metrics["extra/positive_nll"] == pytest.approx(-sum(right) / len(right), rel=1e-5)
    assert (with_nll.logprobs - without.logprobs).tolist() == pytest.approx((own * (-0.1 / len(right))).tolist(), abs=1e-7)


def test_a_batch_without_a_right_sample_adds_nothing():
    """No division by no tokens."""
    batch = random_batch(0)
    batch = batch.with_sequences(raw_rewards=torch.zeros(batch.num_sequences))
    plain = PolicyObjective(PpoClip(PpoClipConfig(clip_high=0.28)), kl=KlConfig())
    with_nll, without = (gradient(one, Aggregator("token-mean"), batch) for one in (vapo(), plain))

    assert with_nll.loss == without.loss
    assert torch.equal(with_nll.logprobs, without.logprobs)
    assert "extra/positive_nll" not in with_nll.metrics


@pytest.mark.parametrize("name", ["token-mean", "seq-mean-token-mean", "prompt-mean"])
@given(data=st.data(), seed=st.integers(0, 500), ranks=st.sampled_from([1, 2, 4]))
@settings(deadline=None, max_examples=20)
def test_any_split_and_order_has_the_same_gradient(name, data, seed, ranks):
    """VAPO with a critic on the trunk: policy, imitation and value loss, each with its own denominator."""
    batch = scored(seed)
    order = data.draw(st.permutations(range(batch.num_sequences)))
    cut = [[[s] for s in order[rank::ranks]] for rank in range(ranks)]
    whole, parts = (gradient(vapo(critic=True), Aggregator(name), batch, split) for split in (None, cut))
    packed = gradient(vapo(critic=True), Aggregator(name), batch.select(order))
    where = batch.token_indices(order)

    assert torch.allclose(parts.logprobs, whole.logprobs, rtol=1e-6, atol=1e-9)
    assert torch.allclose(parts.others["new_values"], whole.others["new_values"], rtol=1e-6, atol=1e-9)
    assert torch.allclose(packed.logprobs, whole.logprobs[where], rtol=1e-5, atol=1e-8)
    assert torch.allclose(packed.others["new_values"], whole.others["new_values"][where], rtol=1e-5, atol=1e-8)
    assert parts.loss == pytest.approx(whole.loss, rel=1e-4, abs=1e-5)
    assert parts.metrics == pytest.approx(whole.metrics, rel=1e-4, abs=1e-5)
