"""The mean within parts of a fixed number of sequences, then over parts."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.config.algorithm import KlConfig
from core_rl.data.batch import PackedBatch
from core_rl.numerics.aggregation import Aggregator, LocalMean
from core_rl.objective import PolicyObjective
from core_rl.roles.train import LossOutput
from core_rl.testing.batches import random_batch
from core_rl.testing.invariance import gradient
from core_rl.testing.losses import random_split

from . import reference


def reinforce(logprobs, batch):
    return LossOutput(values=-batch["advantages"] * logprobs, metrics={})


def with_lengths(*lengths):
    """A batch of as many sequences, each with a prompt of one token and so many tokens in the mask."""
    positions = torch.cat([torch.arange(length + 1) for length in lengths])
    cu_seqlens = torch.tensor([0, *(length + 1 for length in lengths)]).cumsum(0).int()
    mask = positions > 0
    batch = PackedBatch(tokens=positions, cu_seqlens=cu_seqlens, positions=positions.int(), loss_mask=mask)
    return batch, mask


def test_by_hand():
    """Parts of two sequences with 1 and 3, then 2 tokens: each part counts half, each token its part's share."""
    batch, mask = with_lengths(1, 3, 2)

    assert LocalMean(2).weights(batch)[mask].tolist() == pytest.approx([1 / 8] * 4 + [1 / 4] * 2)


def test_a_part_without_tokens_does_not_count():
    """Two parts, one empty: the other is the whole mean."""
    batch, mask = with_lengths(2, 3, 0, 0)

    assert LocalMean(2).weights(batch)[mask].tolist() == pytest.approx([1 / 5] * 5)


@given(seed=st.integers(0, 300), sequences=st.integers(1, 5))
@settings(deadline=None, max_examples=25)
def test_the_weighted_sum_is_the_definition(seed, sequences):
    """Against means of means over lists, in ragged batches with a wholly masked sequence."""
    batch = random_batch(seed, num_groups=4)
    losses = torch.randn(batch.num_tokens, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    kept = [
        [x for x, inside in zip(*row, strict=True) if inside]
        for row in zip(reference.rows(losses, batch), reference.rows(batch.loss_mask, batch), strict=True)
    ]
    parts = [reference.flat(kept[start : start + sequences]) for start in range(0, len(kept), sequences)]
    means = [reference.mean(part) for part in parts if part]
    weights = LocalMean(sequences).weights(batch)

    assert weights.dtype == torch.float32
    assert (weights[~batch.loss_mask] == 0).all()
    assert (weights * losses).sum().item() == pytest.approx(reference.mean(means) if means else 0.0, rel=1e-5, abs=1e-6)


def test_its_ends_are_two_known_aggregations():
    """Parts of one sequence: seq-mean-token-mean. One part of all: token-mean."""
    batch = random_batch(3, num_groups=4)

    assert torch.allclose(LocalMean(1).weights(batch), Aggregator("seq-mean-token-mean").weights(batch))
    assert torch.allclose(LocalMean(10**6).weights(batch), Aggregator("token-mean").weights(batch))


def test_parts_are_not_the_token_mean():
    """It gives tokens of short parts more weight: the bias of averaging micro-batch by micro-batch."""
    batch, mask = with_lengths(1, 3)
    first, *others = LocalMean(1).weights(batch)[mask].tolist()

    assert first == pytest.approx(3 * others[0])


@given(seed=st.integers(0, 300), sequences=st.integers(1, 4), ranks=st.sampled_from([1, 2, 4]), random=st.randoms())
@settings(deadline=None, max_examples=25)
def test_the_engines_own_split_does_not_matter(seed, sequences, ranks, random):
    """The parts are of the batch; micro-batches and ranks may be any."""
    batch = random_batch(seed)
    objective = PolicyObjective(reinforce, kl=KlConfig())
    split = random_split(random, batch.num_sequences, ranks)
    whole, cut = gradient(objective, LocalMean(sequences), batch), gradient(objective, LocalMean(sequences), batch, split)

    assert torch.allclose(cut.logprobs, whole.logprobs, rtol=1e-6, atol=1e-9)
    assert cut.loss == pytest.approx(whole.loss, rel=1e-4, abs=1e-6)


def test_an_empty_mask_weighs_nothing():
    """All zeros, never NaN."""
    batch = random_batch(0)

    assert (LocalMean(2).weights(batch.with_loss_mask(torch.zeros_like(batch.loss_mask))) == 0).all()


def test_no_sequence_is_no_error():
    """[0] -> [0]."""
    assert LocalMean(2).weights(random_batch(0).select([])).numel() == 0
