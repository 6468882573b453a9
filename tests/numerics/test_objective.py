"""The objective: what it adds up, what it reports, and what it does with log-probabilities that are not finite."""

from __future__ import annotations

import pytest
import torch

from core_rl.config.algorithm import KlConfig
from core_rl.numerics.aggregation import Aggregator
from core_rl.objective import PolicyObjective, apply_kl_to_rewards, kl_in_reward
from core_rl.roles.train import LossOutput, PolicyOutputs
from core_rl.testing.batches import in_double, random_batch
from core_rl.testing.invariance import gradient

from . import reference


def reinforce(logprobs, batch):
    """-A log pi, with a metric of its own."""
    return LossOutput(
        values=-batch["advantages"] * logprobs,
        metrics={"loss/own": (torch.tensor(6.0), torch.tensor(4.0))},
        maxima={"loss/own_max": torch.tensor(3.0)},
    )


def clamped(logprobs, batch):
    """A loss that swallows an infinite log-probability, value and gradient."""
    return LossOutput(values=-batch["advantages"] * logprobs.clamp(min=-30), metrics={})


@pytest.mark.parametrize(("coef", "unbiased", "entropy_coef"), [(0.0, False, 0.0), (0.3, False, 0.01), (0.3, True, -0.5)])
def test_value_and_gradient_of_the_sum(coef, unbiased, entropy_coef):
    """weights · loss + coef · KL - entropy_coef · H, token by token."""
    batch = in_double(random_batch(3))
    objective = PolicyObjective(reinforce, kl=KlConfig(coef=coef, estimator="k3", unbiased=unbiased), entropy_coef=entropy_coef)
    logprobs, entropy = batch["logprobs"].clone().requires_grad_(), batch["entropy"].clone().requires_grad_()
    values = objective(PolicyOutputs(logprobs=logprobs, entropy=entropy), batch).values
    values.sum().backward()
    expected, by_logprob = [], []
    names = ("logprobs", "old_logprobs", "ref_logprobs", "advantages", "weights", "entropy")
    for p, old, ref, a, w, h, m in zip(*(batch[name].tolist() for name in names), batch.loss_mask.tolist(), strict=True):
        k, dk = reference.kl("k3", p, ref)
        r, dr = (reference.ratio("token", [p], [old], [True])[0],) * 2 if unbiased else (1.0, 0.0)
        expected.append((w * -a * p + coef * r * k - entropy_coef * h) if m else 0.0)
        by_logprob.append((w * -a + coef * (r * dk + dr * k)) if m else 0.0)

    assert values.tolist() == pytest.approx(expected, rel=1e-12, abs=1e-14)
    assert logprobs.grad.tolist() == pytest.approx(by_logprob, rel=1e-12, abs=1e-14)
    assert objective.entropy_grad is (entropy_coef != 0)
    assert entropy_coef == 0 or entropy.grad.tolist() == pytest.approx([-entropy_coef * m for m in batch.loss_mask.tolist()])


def test_reuse_takes_this_forward_as_the_old_policy():
    """Ratio 1 everywhere, without a gradient through the old log-probabilities."""
    seen = {}

    def loss(logprobs, batch):
        seen["old"] = batch["old_logprobs"]
        return LossOutput(values=(logprobs - batch["old_logprobs"]).exp(), metrics={})

    batch = random_batch(0)
    found = gradient(PolicyObjective(loss, kl=KlConfig(), proximal="reuse"), Aggregator("token-sum"), batch)

    assert torch.equal(seen["old"], batch["logprobs"])
    assert torch.equal(found.logprobs, batch["weights"].where(batch.loss_mask, 0.0))
    assert found.metrics["ratio/mean"] == 1.0


def test_metrics_are_means_over_the_mask():
    """The canonical names, against loops; the loss's own metrics pass through."""
    batch = random_batch(2)
    kl = KlConfig(coef=0.5, estimator="k2")
    metrics = gradient(PolicyObjective(reinforce, kl=kl), Aggregator("token-mean"), batch).metrics
    names = ("logprobs", "old_logprobs", "ref_logprobs", "rollout_logprobs", "advantages", "entropy")
    tokens = [row for *row, m in zip(*(batch[name].tolist() for name in names), batch.loss_mask.tolist(), strict=True) if m]
    each = {
        "policy/loss": lambda p, old, ref, mu, a, h: -a * p,
        "kl/ref": lambda p, old, ref, mu, a, h: reference.kl("k3", p, ref)[0],
        "kl/loss": lambda p, old, ref, mu, a, h: 0.5 * reference.kl("k2", p, ref)[0],
        "kl/old": lambda p, old, ref, mu, a, h: reference.kl("k3", old, p)[0],
        "entropy/mean": lambda p, old, ref, mu, a, h: h,
        "ratio/mean": lambda p, old, ref, mu, a, h: reference.ratio("token", [p], [old], [True])[0],
        "mismatch/kl": lambda p, old, ref, mu, a, h: mu - old,
        "mismatch/k3": lambda p, old, ref, mu, a, h: reference.kl("k3", mu, old)[0],
        "mismatch/abs_mean": lambda p, old, ref, mu, a, h: abs(mu - old),
        "nan_tokens": lambda *_: 0.0,
        "loss/own": lambda *_: 1.5,
        "loss/own_max": lambda *_: 3.0,
    }
    expected = {name: reference.mean([function(*row) for row in tokens]) for name, function in each.items()}
    expected["ratio/token_max"] = max(reference.ratio("token", [row[0]], [row[1]], [True])[0] for row in tokens)
    expected["mismatch/abs_max"] = max(abs(row[3] - row[1]) for row in tokens)

    assert metrics == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_mismatch_is_the_trainers_when_the_old_policy_is_the_rollouts():
    """With `proximal: rollout` the batch's old log-probabilities are mu itself, and hide the disagreement."""
    batch = random_batch(2)
    batch = batch.with_tokens(old_logprobs=batch["rollout_logprobs"])
    hidden = gradient(PolicyObjective(reinforce, kl=KlConfig()), Aggregator("token-mean"), batch).metrics
    shown = gradient(PolicyObjective(reinforce, kl=KlConfig(), old_is_rollout=True), Aggregator("token-mean"), batch).metrics
    gap = (batch["logprobs"] - batch["rollout_logprobs"]).abs()[batch.loss_mask]

    assert hidden["mismatch/abs_max"] == 0.0
    assert shown["mismatch/abs_max"] == pytest.approx(gap.max().item())


@pytest.mark.parametrize("reuse", [False, True])
@pytest.mark.parametrize("value", [float("nan"), float("-inf"), float("inf")])
def test_a_log_probability_that_is_not_finite_poisons_loss_and_gradient(value, reuse):
    """Even where the loss would swallow it: the engine sees it and refuses the step."""
    batch = random_batch(0)
    batch = batch.with_tokens(advantages=batch["advantages"].abs() + 0.1)
    where = batch.loss_mask.nonzero()[0]
    batch = batch.with_tokens(logprobs=batch["logprobs"].index_fill(0, where, value))
    found = gradient(
        PolicyObjective(clamped, kl=KlConfig(), proximal="reuse" if reuse else "batch"), Aggregator("token-mean"), batch
    )

    assert found.loss != found.loss
    assert found.logprobs[where].isnan().all()
    assert found.metrics["nan_tokens"] == pytest.approx(1 / int(batch.loss_mask.sum()))


def test_garbage_outside_the_mask_does_no_harm():
    """Prompt tokens may be anything."""
    batch = random_batch(0)
    names = ("logprobs", "entropy", "ref_logprobs", "old_logprobs", "rollout_logprobs", "advantages")
    dirty = batch.with_tokens(**{name: batch[name].where(batch.loss_mask, torch.nan) for name in names})
    objective = PolicyObjective(reinforce, kl=KlConfig(coef=0.1), entropy_coef=0.1)
    clean, found = (gradient(objective, Aggregator("seq-mean-token-mean"), b) for b in (batch, dirty))

    assert found.loss == clean.loss
    assert torch.equal(found.logprobs[batch.loss_mask], clean.logprobs[batch.loss_mask])
    assert found.metrics == clean.metrics


def test_an_empty_mask_has_loss_zero_and_no_metrics():
    """Counts of zero, values of zero, a gradient of zero."""
    batch = random_batch(0)
    batch = batch.with_loss_mask(torch.zeros_like(batch.loss_mask))
    found = gradient(PolicyObjective(reinforce, kl=KlConfig(coef=0.1)), Aggregator("token-mean"), batch)

    assert found.loss == 0.0
    assert (found.logprobs == 0).all()
    assert "policy/loss" not in found.metrics


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_kl_in_the_reward(estimator):
    """Per token -coef · KL of the old policy; the sequence's reward loses their sum; a failed reward stays failed."""
    batch = random_batch(4)
    rewards = batch["rewards"].index_fill(0, torch.tensor([0]), torch.nan)
    batch = batch.with_sequences(rewards=rewards)
    kl = KlConfig(coef=0.2, estimator=estimator, place="reward")
    charged = apply_kl_to_rewards(batch, kl)
    names = ("old_logprobs", "ref_logprobs")
    per_row = [
        [-0.2 * reference.kl(estimator, p, r)[0] if m else 0.0 for p, r, m in zip(*row, strict=True)]
        for row in zip(*(reference.rows(batch[n], batch) for n in names), reference.rows(batch.loss_mask, batch), strict=True)
    ]
    expected = [r + sum(row) for r, row in zip(rewards.tolist(), per_row, strict=True)]

    assert kl_in_reward(batch, kl).tolist() == pytest.approx(reference.flat(per_row), abs=1e-6)
    assert torch.equal(charged["kl_rewards"], kl_in_reward(batch, kl))
    assert charged["rewards"].tolist()[1:] == pytest.approx(expected[1:], abs=1e-6)
    assert charged["rewards"][0].isnan()
    assert PolicyObjective(reinforce, kl=kl)(_outputs(batch), batch).metrics.keys().isdisjoint({"kl/loss"})


def _outputs(batch):
    return PolicyOutputs(logprobs=batch["logprobs"], entropy=batch["entropy"])
