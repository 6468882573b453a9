"""KTO: value, gradient, the baseline of mismatched rows, invariance, refusals."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.errors import DataError
from core_rl.numerics.aggregation import Aggregator
from core_rl.objective_offline import OfflineObjective
from core_rl.testing.invariance import gradient
from core_rl_preference.config import KtoConfig
from core_rl_preference.kto import Kto, mismatched

from .preference_batches import cut, labelled

MEAN = Aggregator("seq-mean-token-mean")


def by_definition(batch, config, z):
    """Mean over rows and its gradient."""
    leaves = batch["logprobs"].clone().requires_grad_()
    losses = []
    bounds = batch.cu_seqlens.tolist()
    for s in range(batch.num_sequences):
        where = [t for t in range(bounds[s], bounds[s + 1]) if batch.loss_mask[t]]
        a = sum(leaves[t] for t in where) - sum(batch["ref_logprobs"][t] for t in where)
        if batch["desirable"][s]:
            losses.append(config.desirable_weight * (1 - 1 / (1 + torch.exp(-config.beta * (a - z)))))
        else:
            losses.append(config.undesirable_weight * (1 - 1 / (1 + torch.exp(-config.beta * (z - a)))))
    mean = sum(losses) / len(losses)
    mean.backward()
    return mean.item(), leaves.grad


@pytest.mark.parametrize("options", [{}, {"beta": 0.5, "desirable_weight": 1.5, "undesirable_weight": 0.7}], ids=str)
@pytest.mark.parametrize("z", [0.0, 0.8])
@pytest.mark.parametrize("seed", range(3))
def test_loss_and_gradient_are_those_of_the_paper(options, z, seed):
    """Good and bad rows, with and without a divergence."""
    batch, config = labelled(seed), KtoConfig(**options)
    batch = batch.with_sequences(kto_z=torch.full((batch.num_sequences,), z).double())
    found = gradient(OfflineObjective(Kto(config)), MEAN, batch)
    loss, slopes = by_definition(batch, config, z)

    assert found.loss == pytest.approx(loss, rel=1e-6)
    assert torch.allclose(found.logprobs, slopes, rtol=1e-5, atol=1e-9)


def test_mismatched_rows_have_the_next_rows_completion():
    """Prompt of one, completion of the next, round to the first; masks go along."""
    batch = labelled(0, 3)
    other = mismatched(batch)
    longest = int(batch.lengths.max())
    rows = list(zip(batch.tokens.split(batch.lengths.tolist()), batch.loss_mask.split(batch.lengths.tolist()), strict=True))
    found = list(zip(other.tokens.split(other.lengths.tolist()), other.loss_mask.split(other.lengths.tolist()), strict=True))
    for index, (tokens, mask) in enumerate(found):
        own, following = rows[index], rows[(index + 1) % 3]
        expected = own[0][~own[1]].tolist() + following[0][following[1]].tolist()
        assert tokens.tolist() == expected[:longest]
        assert mask.tolist() == ([False] * int((~own[1]).sum()) + [True] * int(following[1].sum()))[:longest]

    assert torch.equal(other.positions, torch.cat([torch.arange(len(tokens)) for tokens, _ in found]).int())


@pytest.mark.parametrize(("difference", "expected"), [(0.3, None), (-0.3, 0.0)])
def test_z_is_the_mean_divergence_of_mismatched_rows_and_never_negative(difference, expected):
    """Each token of the policy is `difference` above the reference."""
    batch = labelled(1)

    def forward(part, weights="current"):
        return torch.full((part.num_tokens,), -1.0 + (difference if weights == "current" else 0.0)).where(part.loss_mask, 0.0)

    z = Kto(KtoConfig()).prepare(batch, forward)["kto_z"]
    lengths = [int(part.sum()) for part in mismatched(batch).loss_mask.split(mismatched(batch).lengths.tolist())]
    mean = difference * sum(lengths) / len(lengths)

    assert z.tolist() == pytest.approx([mean if expected is None else expected] * batch.num_sequences, rel=1e-5)


@given(seed=st.integers(0, 200), ranks=st.sampled_from([1, 2, 4]), random=st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=15)
def test_any_split_has_the_same_gradient(seed, ranks, random):
    """z is known before the split."""
    batch = labelled(seed)
    batch = batch.with_sequences(kto_z=torch.full((batch.num_sequences,), 0.2).double())
    objective = OfflineObjective(Kto(KtoConfig()))
    whole = gradient(objective, MEAN, batch)
    parts = gradient(objective, MEAN, batch, cut(random, batch.num_sequences, ranks, [[s] for s in range(batch.num_sequences)]))

    assert torch.allclose(parts.logprobs, whole.logprobs, rtol=1e-6, atol=1e-12)
    assert parts.metrics == pytest.approx(whole.metrics, rel=1e-6)


def test_extremes_and_edges():
    """Log-ratios of a thousand; rows that are all good; one row alone is refused where a divergence is wanted."""
    batch = labelled(2).with_sequences(kto_z=torch.zeros(6).double())
    for shift in (1e3, -1e3):
        found = gradient(
            OfflineObjective(Kto(KtoConfig())), MEAN, batch.with_tokens(ref_logprobs=batch["ref_logprobs"] + shift)
        )
        assert math.isfinite(found.loss)
        assert found.logprobs.isfinite().all()
    good = batch.with_sequences(desirable=torch.ones(6, dtype=torch.bool))
    metrics = gradient(OfflineObjective(Kto(KtoConfig(baseline="none"))), MEAN, good).metrics

    assert "rewards/rejected" not in metrics
    with pytest.raises(DataError, match=r"raise run\.prompts_per_step"):
        Kto(KtoConfig()).prepare(batch.select([0]), lambda *_: None)
