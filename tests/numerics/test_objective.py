"""The objective: what it adds up, what it reports, and what it does with log-probabilities that are not finite."""

from __future__ import annotations

import math

import pytest
import torch

from core_rl.config.algorithm import KlConfig
from core_rl.numerics.aggregation import Aggregator
from core_rl.objective import PolicyObjective, apply_kl_to_advantages, apply_kl_to_rewards, kl_of_tokens
from core_rl.objective_extras import ExtraLoss
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
        "mismatch/outside_frac": lambda p, old, ref, mu, a, h: float(math.exp(old - mu) < 1e-3),
        "mismatch/rho_mean": lambda p, old, ref, mu, a, h: math.exp(old - mu),
        "mismatch/rho_square_mean": lambda p, old, ref, mu, a, h: math.exp(2 * (old - mu)),
        "nan_tokens": lambda *_: 0.0,
        "loss/own": lambda *_: 1.5,
        "loss/own_max": lambda *_: 3.0,
    }
    expected = {name: reference.mean([function(*row) for row in tokens]) for name, function in each.items()}
    expected["kl/teacher"] = float((batch["logprobs"] - batch["teacher_logprobs"])[batch.loss_mask].mean())
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

    assert (-kl.coef * kl_of_tokens(batch, kl)).tolist() == pytest.approx(reference.flat(per_row), abs=1e-6)
    assert torch.equal(charged["kl_rewards"], -kl.coef * kl_of_tokens(batch, kl))
    assert charged["rewards"].tolist()[1:] == pytest.approx(expected[1:], abs=1e-6)
    assert charged["rewards"][0].isnan()
    assert PolicyObjective(reinforce, kl=kl)(_outputs(batch), batch).metrics.keys().isdisjoint({"kl/loss"})


def _outputs(batch):
    return PolicyOutputs(logprobs=batch["logprobs"], entropy=batch["entropy"])


class Doubled:
    """An extra loss: 2 · -log pi on the tokens of every other sequence."""

    unit = "group"

    def mask(self, batch):
        return batch.sequence_ids % 2 == 0

    def __call__(self, logprobs, batch):
        return LossOutput(values=-2 * logprobs, metrics={"doubled/own": (torch.tensor(1.0), torch.tensor(1.0))})


def test_extra_losses_have_denominators_of_their_own():
    """Half of the mean over their own tokens is added, by value and gradient, whatever the main loss averages over."""
    batch = in_double(random_batch(5, num_groups=5))
    extra = ExtraLoss(name="doubled", loss=Doubled(), weight=0.5)
    mean = Aggregator("token-mean")
    plain = gradient(PolicyObjective(reinforce, kl=KlConfig()), mean, batch)
    both = gradient(PolicyObjective(reinforce, kl=KlConfig(), extras=[extra]), mean, batch)
    own = batch.loss_mask & (batch.sequence_ids % 2 == 0)
    added = 0.5 * float((-2 * batch["logprobs"])[own].mean())
    parts = [[[s] for s in range(batch.num_sequences)]]
    cut = gradient(PolicyObjective(reinforce, kl=KlConfig(), extras=[extra]), mean, batch, parts)

    assert both.loss - plain.loss == pytest.approx(added, rel=1e-6)
    assert torch.allclose(both.logprobs - plain.logprobs, torch.where(own, -1.0 / own.sum(), 0.0).double(), atol=1e-9)
    assert torch.allclose(cut.logprobs, both.logprobs, rtol=1e-6, atol=1e-12)
    assert both.metrics["extra/doubled"] == pytest.approx(2 * added, rel=1e-6)
    assert PolicyObjective(reinforce, kl=KlConfig(), extras=[extra]).unit == "group"


def test_the_log_linear_policy_lies_between_the_two():
    """alpha 0 is the rollout policy, 1 the current one, 1/2 their geometric mean; it has no gradient."""
    batch = in_double(random_batch(5))
    for alpha in (0.0, 0.5, 1.0):
        seen = {}

        def loss(logprobs, prepared, seen=seen):
            seen["old"] = prepared["old_logprobs"]
            return LossOutput(values=(logprobs - prepared["old_logprobs"]).exp(), metrics={})

        part = batch.with_tokens(proximal_alpha=torch.full_like(batch["logprobs"], alpha))
        found = gradient(PolicyObjective(loss, kl=KlConfig(), proximal="loglinear"), Aggregator("token-sum"), part)
        expected = (1 - alpha) * batch["rollout_logprobs"] + alpha * batch["logprobs"]
        ratio = (batch["logprobs"] - expected).exp() * batch["weights"]

        assert torch.allclose(seen["old"], expected)
        assert torch.allclose(found.logprobs, ratio.where(batch.loss_mask, 0.0))


def test_a_penalty_on_advantages_keeps_their_mean():
    """A_t + coef (mean KL - KL_t): less where the policy is far from the reference, nothing on the whole."""
    batch = random_batch(6)
    kl = KlConfig(coef=0.3, estimator="k1", place="advantage")
    moved = apply_kl_to_advantages(batch, kl)["advantages"]
    mask = batch.loss_mask
    divergence = (batch["old_logprobs"] - batch["ref_logprobs"])[mask]
    expected = batch["advantages"][mask] + 0.3 * (divergence.mean() - divergence)

    assert torch.allclose(moved[mask], expected, atol=1e-5)
    assert moved[mask].mean().item() == pytest.approx(batch["advantages"][mask].mean().item(), abs=1e-6)
    assert not moved[~mask].any()


def test_the_entropy_bonus_acts_while_the_entropy_is_low():
    """With a target it is switched by the measured entropy of the step before; the gradient path stays."""
    batch = random_batch(6)
    objective = PolicyObjective(reinforce, kl=KlConfig(), entropy_coef=0.1, entropy_target=0.5)
    on = gradient(objective, Aggregator("token-mean"), batch)
    objective.entropy_acts = False
    off = gradient(objective, Aggregator("token-mean"), batch)

    assert objective.entropy_grad
    assert on.entropy[batch.loss_mask].lt(0).all()
    assert not off.entropy.any()
