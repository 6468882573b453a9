"""`truncated`, `shared_prefix`, `high_entropy`, `accept_if`, and parts of a reward in `zero_variance`."""

from __future__ import annotations

import math
from itertools import takewhile

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.data.packing import pack
from core_rl.data.sample import Group, Prompt, RewardPart, Sample, Turn
from core_rl.errors import UserError
from core_rl.testing.batches import random_batch
from core_rl_rejections.accept_if import AcceptIf
from core_rl_rejections.config import AcceptIfConfig, HighEntropyConfig, SharedPrefixConfig, TruncatedConfig, ZeroVarianceConfig
from core_rl_rejections.high_entropy import HighEntropy
from core_rl_rejections.shared_prefix import SharedPrefix
from core_rl_rejections.truncated import Truncated
from core_rl_rejections.zero_variance import ZeroVariance


def sample(tokens, reward, *, prompt=(3, 4), parts=None, finish="stop"):
    turns = [Turn(tokens=list(prompt), generated=False), Turn(tokens=tokens, generated=True, logprobs=[-1.0] * len(tokens))]
    rewards = {name: RewardPart(value=value, weight=1.0) for name, value in (parts or {}).items()}
    row = Prompt(id="p", text="x")
    return Sample(prompt=row, turns=turns, finish_reason=finish, completion_text="", reward=reward, reward_parts=rewards)


def batch_of(*groups):
    return pack([Group(prompt=Prompt(id=str(index), text="x"), samples=list(samples)) for index, samples in enumerate(groups)])


def kept_tokens(batch, verdict):
    """Of each sequence, how many of its tokens in the mask stay."""
    keep = verdict.keep & batch.loss_mask
    return [int(part.sum()) for part in keep.split(batch.lengths.tolist())]


def test_truncated_goes_by_the_finish_reason():
    """Not by the length."""
    batch = batch_of([sample([5, 6, 7], 1.0), sample([5, 6], 0.0, finish="length")])

    assert kept_tokens(batch, Truncated(TruncatedConfig())(batch)) == [3, 0]


def test_a_shared_beginning_of_different_rewards_leaves():
    """Three tokens in common, rewards 1 and 0: both lose them. A third sample with another beginning loses nothing."""
    batch = batch_of([sample([5, 6, 7, 8], 1.0), sample([5, 6, 7, 9, 9], 0.0), sample([9, 9, 9], 0.0)])

    assert kept_tokens(batch, SharedPrefix(SharedPrefixConfig(min_tokens=3))(batch)) == [1, 2, 3]
    assert kept_tokens(batch, SharedPrefix(SharedPrefixConfig(min_tokens=4))(batch)) == [4, 5, 3]


def test_nothing_leaves_where_nothing_would_be_left_or_rewards_are_equal():
    """A sample that is a prefix of another stays whole; equal rewards and other groups contest nothing."""
    inside = batch_of([sample([5, 6], 1.0), sample([5, 6, 7], 0.0)])
    equal = batch_of([sample([5, 6, 7], 1.0), sample([5, 6, 8], 1.0)])
    apart = batch_of([sample([5, 6, 7], 1.0)], [sample([5, 6, 8], 0.0)])
    prefix = SharedPrefix(SharedPrefixConfig(min_tokens=1))

    assert kept_tokens(inside, prefix(inside)) == [2, 1]
    assert kept_tokens(equal, prefix(equal)) == [3, 3]
    assert kept_tokens(apart, prefix(apart)) == [3, 3]


@given(data=st.data(), minimum=st.integers(1, 4))
@settings(deadline=None, max_examples=60)
def test_shared_prefixes_are_those_of_a_comparison_pair_by_pair(data, minimum):
    """Against the longest common beginning with any sample of another reward."""
    lists = data.draw(st.lists(st.lists(st.integers(5, 6), min_size=1, max_size=5), min_size=1, max_size=6))
    rewards = [data.draw(st.sampled_from([0.0, 1.0])) for _ in lists]
    batch = batch_of([sample(tokens, reward) for tokens, reward in zip(lists, rewards, strict=True)])
    expected = []
    for tokens, reward in zip(lists, rewards, strict=True):
        others = [other for other, theirs in zip(lists, rewards, strict=True) if theirs != reward]
        common = [len(list(takewhile(lambda pair: pair[0] == pair[1], zip(tokens, other, strict=False)))) for other in others]
        shared = max(common, default=0)
        expected.append(len(tokens) - (shared if minimum <= shared < len(tokens) else 0))

    assert kept_tokens(batch, SharedPrefix(SharedPrefixConfig(min_tokens=minimum))(batch)) == expected


def test_high_entropy_keeps_the_least_sure():
    """A fifth of the tokens, and none outside has more; the others count 0, or leave."""
    batch = random_batch(1, num_groups=8)
    verdict = HighEntropy(HighEntropyConfig(share=0.2, action="mask"))(batch)
    zeroed = HighEntropy(HighEntropyConfig(share=0.2))(batch)
    kept = verdict.keep & batch.loss_mask
    entropy = batch["entropy"]

    assert int(kept.sum()) == max(1, math.floor(0.2 * int(batch.loss_mask.sum())))
    assert entropy[kept].min() >= entropy[batch.loss_mask & ~kept].max()
    assert zeroed.keep.all()
    assert torch.equal(zeroed.weights, verdict.keep.float())
    assert zeroed.metrics == verdict.metrics
    assert HighEntropy(HighEntropyConfig(share=1.0))(batch).weights.all()
    assert HighEntropy(HighEntropyConfig())(batch.with_loss_mask(torch.zeros_like(batch.loss_mask))).keep.all()


def short_and_right(sequence):
    return sequence.length <= 2 and sequence.rewards["exact"] == 1.0 and len(sequence.group_rewards) == 2


def breaks(sequence):
    return sequence.length < 1 / 0


def answers_with_text(sequence):
    return f"yes {sequence.length}"


def test_accept_if_asks_the_users_function():
    """It sees rewards by name, lengths, the group and the tokens."""
    parts = [{"exact": 1.0}, {"exact": 1.0}]
    batch = batch_of([sample([5, 6], 1.0, parts=parts[0]), sample([5, 6, 7], 1.0, parts=parts[1])])
    accept = AcceptIf(AcceptIfConfig(function=f"{__name__}:short_and_right"))

    assert kept_tokens(batch, accept(batch)) == [2, 0]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("breaks", "accept_if: .*breaks raised ZeroDivisionError"),
        ("answers_with_text", "returned 'yes 2', expected true or false"),
    ],
)
def test_a_function_that_fails_is_named(function, message):
    """One line with what it did."""
    batch = batch_of([sample([5, 6], 1.0)])

    with pytest.raises(UserError, match=message):
        AcceptIf(AcceptIfConfig(function=f"{__name__}:{function}"))(batch)


def test_zero_variance_of_one_reward():
    """Equal sums, different parts: `metric` says what is compared, and an unknown name is told."""
    batch = batch_of([sample([5], 1.0, parts={"a": 1.0, "b": 0.0}), sample([6], 1.0, parts={"a": 0.0, "b": 1.0})])

    assert kept_tokens(batch, ZeroVariance(ZeroVarianceConfig())(batch)) == [0, 0]
    assert kept_tokens(batch, ZeroVariance(ZeroVarianceConfig(metric="a"))(batch)) == [1, 1]
    with pytest.raises(UserError, match="there is no reward 'c'; known: reward, a, b"):
        ZeroVariance(ZeroVarianceConfig(metric="c"))(batch)
