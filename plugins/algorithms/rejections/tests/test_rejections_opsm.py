"""The off-policy sequence mask, as a rejection and as a loss around another."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.component import Component
from core_rl.config.load import load_run_file
from core_rl.config.selection import Selection
from core_rl.errors import ConfigError
from core_rl.objective_extras import before_step
from core_rl.plugins.build import build
from core_rl.testing.batches import in_double, random_batch
from core_rl.testing.losses import (
    assert_equals_reference,
    assert_finite,
    assert_same_for_any_split,
    assert_same_in_any_order,
    random_split,
    value_and_gradient,
)
from core_rl_rejections.config import OpsmConfig, OpsmLossConfig
from core_rl_rejections.opsm import Opsm, OpsmLoss


def selected(tmp_path, algorithm):
    file = tmp_path / "run.yaml"
    model = 'model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}'
    data = "data: {name: jsonl, path: rows.jsonl}"
    file.write_text(f"{model}\n{data}\nrewards: [math]\nalgorithm: {algorithm}\n")
    return load_run_file(file).algorithm.options


@pytest.fixture
def loss(tmp_path):
    def make(options="", of="ppo_clip"):
        text = f"{{name: grpo, minibatches: 2, loss: {{name: opsm, of: {of}{options}}}}}"
        return build(selected(tmp_path, text).loss)

    return make


@pytest.mark.parametrize(
    ("advantage", "shift", "kept"),
    [(-1.0, 0.1, False), (-1.0, -0.1, True), (1.0, 0.1, True), (0.0, 0.1, True), (-1.0, 0.05, True)],
)
def test_the_rejection_drops_bad_sequences_that_the_policy_would_not_write(advantage, shift, kept):
    """A < 0 and mean(log mu - log pi_old) above delta, and nothing else; the bound itself stays."""
    batch = in_double(random_batch(5))
    same = torch.full_like(batch["advantages"], advantage)
    batch = batch.with_tokens(rollout_logprobs=batch["old_logprobs"] + shift, advantages=same)
    delta = 0.05 + 1e-9
    masked, zeroed = (Opsm(OpsmConfig(delta=delta, action=action))(batch) for action in ("mask", "zero"))

    assert set(masked.keep[batch.loss_mask].tolist()) == {kept}
    assert masked.weights is None
    assert zeroed.keep.all()
    assert torch.equal(zeroed.weights, masked.keep.float())
    assert masked.metrics == zeroed.metrics == {"opsm/dropped_frac": 0.0 if kept else 1.0}


def reference(against, delta):
    """PPO-clip of a sequence, or nothing of it."""

    def row(fields):
        p, old, a = fields["logprobs"], fields["old_logprobs"], fields["advantages"]
        other = fields["rollout_logprobs"] if against == "rollout" else old
        divergence = sum(q.item() - x.item() for q, x in zip(other, p, strict=True)) / len(p)
        if sum(x.item() for x in a) < 0 and divergence > delta:
            return [0 * x for x in p]
        losses = []
        for x, o, advantage in zip(p, old, a, strict=True):
            r = torch.exp(x - o)
            clipped = min(max(r.item(), 0.8), 1.2)
            inside = (r * advantage).item() <= clipped * advantage.item()
            losses.append(-r * advantage if inside else -clipped * advantage)
        return losses

    return row


@pytest.mark.parametrize("against", ["rollout", "old"])
def test_value_and_gradient_of_the_loss(loss, against):
    """The other loss where a sequence is kept; nothing, and no gradient, where it is not."""
    assert_equals_reference(loss(f", delta: 0.05, against: {against}"), reference(against, 0.05), seeds=range(6))


@given(seed=st.integers(0, 500), ranks=st.sampled_from([1, 2, 4]), random=st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=15)
def test_it_does_not_depend_on_the_split(shared_loss, seed, ranks, random):
    """Sequences stay whole, so that each is judged alike in any micro-batch, rank and order."""
    count = random_batch(seed).num_sequences
    order = random.sample(range(count), count)

    for aggregation in ("token-mean", "seq-mean-token-mean"):
        assert_same_for_any_split(shared_loss, seed, random_split(random, count, ranks), aggregation=aggregation)
        assert_same_in_any_order(shared_loss, seed, order, aggregation=aggregation)


@pytest.fixture(scope="module")
def shared_loss(tmp_path_factory):
    text = "{name: grpo, minibatches: 2, loss: {name: opsm, of: ppo_clip, delta: 0.05}}"
    return build(selected(tmp_path_factory.mktemp("opsm"), text).loss)


@pytest.mark.parametrize("against", ["rollout", "old"])
def test_extremes_stay_finite(loss, against):
    """Log-ratios of 50 and 1e4 either way, probability 1, an empty mask."""
    assert_finite(loss(f", against: {against}"))


def test_a_large_delta_is_the_other_loss(loss):
    """To the bit, with its metrics and one more."""
    batch = random_batch(2)
    plain, masked = loss().loss, loss(", delta: 1000.0")
    (value, slope), (same, same_slope) = (value_and_gradient(one, batch) for one in (plain, masked))
    metrics = masked(batch["logprobs"], batch).metrics

    assert torch.equal(value, same)
    assert torch.equal(slope, same_slope)
    assert metrics.keys() - plain(batch["logprobs"], batch).metrics.keys() == {"opsm/dropped_frac"}
    assert metrics["opsm/dropped_frac"][0] == 0


def test_a_log_probability_that_is_not_finite_is_not_swept_away(loss):
    """NaN compares with nothing: the sequence stays, and the step is refused."""
    batch = random_batch(0)
    where = batch.loss_mask.nonzero()[0]
    batch = batch.with_tokens(logprobs=batch["logprobs"].index_fill(0, where, math.nan))

    assert loss()(batch["logprobs"], batch).values[where].isnan().all()


class OfGroups:
    """A loss that looks at whole groups, and at the whole batch before it is split."""

    unit = "group"

    def before_step(self, batch):
        return batch.with_tokens(seen=batch["logprobs"])


def test_what_the_other_loss_says_of_itself_is_passed_on():
    """The unit, and the view of the whole batch."""
    of = Selection(kind="loss", name="x", component=Component(name="x", target=f"{__name__}:OfGroups", summary="x"))
    masked = OpsmLoss(OpsmLossConfig(of=of))

    assert masked.unit == "group"
    assert "seen" in before_step(masked, random_batch(0))


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        ("{name: grpo, loss: opsm}", r"algorithm\.loss"),
        (
            "{name: grpo, loss: {name: opsm, of: ppo_clip, against: old}}",
            r"algorithm\.loss\.against: in a batch that is one optimizer step the policy is the old one",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, algorithm, message):
    """A loss around none; a comparison of the policy with itself."""
    with pytest.raises(ConfigError, match=message):
        selected(tmp_path, algorithm)
