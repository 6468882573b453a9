"""Bradley-Terry by value and gradient, at its limits, and whatever the split."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.numerics.aggregation import Aggregator
from core_rl.objective_offline import OfflineObjective
from core_rl.testing.invariance import gradient
from core_rl_reward_model.bradley_terry import BradleyTerry
from core_rl_reward_model.config import BradleyTerryConfig

from .reward_model_reference import batch_of, bradley_terry

SCORE = st.floats(-6, 6)


def _loss(batch, *, centre=0.0):
    """(value of each sequence, gradient of the sum over pairs by each sequence's score)."""
    values = batch["new_values"].clone().requires_grad_()
    output = BradleyTerry(BradleyTerryConfig(centre_coef=centre))(batch["logprobs"], batch.with_tokens(new_values=values))
    ends = batch.cu_seqlens[1:].long() - 1
    (slope,) = torch.autograd.grad(output.values[ends].sum() / 2, values)  # a pair's loss stands at two tokens
    return output.values[ends].detach(), slope[ends], output


def _by_side(batch, values):
    """(of chosen, of rejected), pair by pair."""
    return values[batch["chosen"]].tolist(), values[~batch["chosen"]].tolist()


@given(
    scores=st.lists(st.tuples(SCORE, SCORE), min_size=1, max_size=6),
    centre=st.sampled_from([0.0, 0.01, 0.5]),
    margin=st.none() | st.floats(-2, 3),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=40)
def test_value_and_gradient_are_those_of_the_definition(scores, centre, margin, seed):
    """In float64, whichever side of a pair comes first in the batch."""
    margins = None if margin is None else [margin + index for index in range(len(scores))]
    batch = batch_of(scores, margins=margins, seed=seed)
    values, slopes, _ = _loss(batch, centre=centre)
    expected = [
        bradley_terry(*pair, margin=m, centre=centre) for pair, m in zip(scores, margins or [0.0] * len(scores), strict=True)
    ]

    assert _by_side(batch, values) == (pytest.approx([e[0] for e in expected]), pytest.approx([e[0] for e in expected]))
    assert _by_side(batch, slopes) == (
        pytest.approx([e[1] for e in expected], abs=1e-12),
        pytest.approx([e[2] for e in expected], abs=1e-12),
    )


def test_values_by_hand():
    """Equal scores cost log 2; a difference of log 3 has the probability 3/4; a margin of the same size takes it away."""
    values, _, output = _loss(batch_of([(1.0, 1.0), (math.log(3), 0.0), (0.0, math.log(3))]))
    with_margin, _, _ = _loss(batch_of([(math.log(3), 0.0)], margins=[math.log(3)]))

    assert sorted({round(value, 9) for value in values.tolist()}) == sorted(
        round(x, 9) for x in (math.log(2), -math.log(0.75), -math.log(0.25))
    )
    assert with_margin.tolist() == pytest.approx([math.log(2)] * 2)
    assert {name: float(total / count) for name, (total, count) in output.metrics.items()} == pytest.approx(
        {
            "rewards/accuracy": 1 / 3,
            "rewards/margin": 0.0,
            "rewards/chosen": (1 + math.log(3)) / 3,
            "rewards/rejected": (1 + math.log(3)) / 3,
        }
    )


@pytest.mark.parametrize("difference", [1e3, -1e3, 1e30, -1e30])
def test_extreme_scores_are_finite(difference):
    """Also where exp overflows: the loss is 0 or the difference, its gradient 0 or 1."""
    batch = batch_of([(difference, 0.0)])
    values, slopes, _ = _loss(batch.with_tokens(new_values=batch["new_values"].float()))

    assert values.tolist() == pytest.approx([max(-difference, 0.0)] * 2)
    assert sorted(slopes.tolist()) == pytest.approx([-1.0, 1.0] if difference < 0 else [0.0, 0.0])


def test_the_centre_pulls_both_scores_to_zero():
    """The first term alone fixes differences; the second one has the sum's sign at both."""
    _, without, _ = _loss(batch_of([(3.0, 2.0)]))
    _, with_centre, _ = _loss(batch_of([(3.0, 2.0)]), centre=0.1)

    assert float(without.sum()) == pytest.approx(0.0)
    assert (with_centre - without).tolist() == pytest.approx([1.0, 1.0])


@given(scores=st.lists(st.tuples(SCORE, SCORE), min_size=2, max_size=6), seed=st.integers(0, 99), data=st.data())
@settings(deadline=None, max_examples=25)
def test_any_split_that_keeps_pairs_has_the_same_loss_gradient_and_metrics(scores, seed, data):
    """The mean over pairs, whatever the micro-batches, the ranks and the order."""
    batch = batch_of(scores, margins=[0.5] * len(scores), seed=seed)
    batch = batch.with_tokens(new_values=batch["new_values"].float())
    owners = [data.draw(st.integers(0, 2)) for _ in scores]
    ranks = [
        [[2 * index, 2 * index + 1] for index, owner in enumerate(owners) if owner == rank] for rank in range(3)
    ]  # a pair in each micro-batch
    objective = OfflineObjective(BradleyTerry(BradleyTerryConfig(centre_coef=0.1)))
    whole, cut = (gradient(objective, Aggregator("prompt-mean"), batch, split) for split in (None, ranks))
    expected = [bradley_terry(*pair, margin=0.5, centre=0.1)[0] for pair in scores]

    assert objective.unit == "group"
    assert whole.loss == pytest.approx(sum(expected) / len(expected), rel=1e-4)
    assert cut.loss == pytest.approx(whole.loss, rel=1e-4)
    assert torch.allclose(cut.others["new_values"], whole.others["new_values"], rtol=1e-5, atol=1e-7)
    assert cut.metrics == pytest.approx(whole.metrics, rel=1e-4, abs=1e-5)
