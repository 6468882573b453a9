"""Every advantage of the family against its definition, token by token."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.testing.batches import random_batch
from core_rl_reinforce.config import GdpoConfig, GpgConfig, MaxRlConfig, PassAtKConfig
from core_rl_reinforce.gdpo import Gdpo
from core_rl_reinforce.gpg import Gpg
from core_rl_reinforce.maxrl import MaxRl
from core_rl_reinforce.opo import Opo
from core_rl_reinforce.pass_at_k import PassAtK
from core_rl_reinforce.rloo import Rloo

from . import reinforce_reference as reference

LEVELS = [0.0, 0.0, 0.25, 0.5, 1.0, 1.0, -0.5, math.nan]
"""Few values, so that there are ties, groups without spread, negative means and failures."""


def batch_of(seed, rewards=None, *, num_groups=5):
    """Ragged groups, one sequence wholly masked; rewards drawn from LEVELS."""
    batch = random_batch(seed, num_groups=num_groups, group_size=5)
    random = torch.Generator().manual_seed(seed + 1)
    drawn = torch.tensor(LEVELS)[torch.randint(len(LEVELS), (batch.num_sequences,), generator=random)]
    return batch.with_sequences(rewards=drawn if rewards is None else rewards)


def facts(batch):
    lengths = [int(mask.sum()) for mask in batch.loss_mask.split(batch.lengths.tolist())]
    return [float(x) for x in batch["rewards"].double()], batch["group"].tolist(), lengths


def assert_tokens(advantage, batch, expected):
    """Every token in the mask has its sequence's advantage, every other one 0."""
    found = advantage(batch)["advantages"]
    per_token = [value if m else 0.0 for value, m in zip(_spread(expected, batch), batch.loss_mask.tolist(), strict=True)]

    assert found.dtype == torch.float32
    assert found.tolist() == pytest.approx(per_token, rel=1e-5, abs=1e-6)


def _spread(per_sequence, batch):
    return [value for value, count in zip(per_sequence, batch.lengths.tolist(), strict=True) for _ in range(count)]


seeds = given(seed=st.integers(0, 10_000))
often = settings(deadline=None, max_examples=30)


@seeds
@often
def test_rloo_is_the_reward_less_the_mean_of_the_others(seed):
    """Whatever failed is in no mean; one left alone has 0."""
    batch = batch_of(seed)
    rewards, groups, _ = facts(batch)

    assert_tokens(Rloo(), batch, reference.rloo(rewards, groups))


@seeds
@often
def test_opo_weighs_the_baseline_by_length(seed):
    """Lengths are those that were generated, though a rejection narrows the mask afterwards."""
    batch = batch_of(seed)
    rewards, groups, lengths = facts(batch)
    expected = reference.opo(rewards, groups, lengths)
    narrowed = batch.with_loss_mask(batch.loss_mask & (batch.positions % 2 == 0))

    assert_tokens(Opo(), batch, expected)
    assert_tokens(Opo(), narrowed, expected)


@pytest.mark.parametrize(
    "options", [{}, {"alpha": "nonzero_reward"}, {"alpha": "one"}, {"scale": "std"}, {"scale": "std", "eps": 0.5}], ids=str
)
@seeds
@often
def test_gpg_makes_up_for_what_teaches_nothing(options, seed):
    """Alpha counts the samples in the loss; the wholly masked one is not."""
    batch = batch_of(seed)

    assert_tokens(Gpg(GpgConfig(**options)), batch, reference.gpg(*facts(batch), **options))


@pytest.mark.parametrize("options", [{}, {"scale": "std"}, {"scale": "std", "eps": 0.5}], ids=str)
@seeds
@often
def test_pass_at_k_is_what_the_group_loses_without_a_sample(options, seed):
    """0 for all but a single best one."""
    batch = batch_of(seed)
    rewards, groups, _ = facts(batch)

    assert_tokens(PassAtK(PassAtKConfig(**options)), batch, reference.pass_at_k(rewards, groups, **options))


@pytest.mark.parametrize("options", [{}, {"at_zero": "eps", "eps": 1e-3}, {"at_zero": "eps", "eps": 0.5}], ids=str)
@seeds
@often
def test_maxrl_is_relative_to_the_mean(options, seed):
    """Groups whose mean is not above 0 as the option says."""
    batch = batch_of(seed)
    rewards, groups, _ = facts(batch)

    assert_tokens(MaxRl(MaxRlConfig(**options)), batch, reference.maxrl(rewards, groups, **options))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_norm": False},
        {"order": "sum_then_normalise"},
        {"order": "sum_then_normalise", "batch_norm": False, "eps": 1e-4},
        {"std": "population", "eps": 0.1},
    ],
    ids=str,
)
@seeds
@often
def test_gdpo_normalises_every_reward_by_itself(options, seed):
    """Two rewards of different scales with weights, parts that failed, samples that failed."""
    random = torch.Generator().manual_seed(seed)
    batch = batch_of(seed)
    count = batch.num_sequences
    parts = [torch.tensor(LEVELS)[torch.randint(len(LEVELS), (count,), generator=random)] * scale for scale in (1.0, 100.0)]
    weights = [torch.full((count,), 2.0), torch.full((count,), 0.5)]
    fields = {f"rewards/{name}": part for name, part in zip("ab", parts, strict=True)}
    fields |= {f"reward_weights/{name}": weight for name, weight in zip("ab", weights, strict=True)}
    batch = batch.with_sequences(**fields)
    plain = {name: value for name, value in options.items() if name != "std"} | {
        "population": options.get("std") == "population"
    }
    rewards, groups, _ = facts(batch)
    expected = reference.gdpo([p.double().tolist() for p in parts], [w.tolist() for w in weights], rewards, groups, **plain)

    assert_tokens(Gdpo(GdpoConfig(**options)), batch, expected)


def _by_hand(advantage, rewards, group=None, lengths=None):
    """Advantages of the sequences, each with one to three tokens after its first."""
    lengths = lengths or [1] * len(rewards)
    bounds = torch.tensor([0, *lengths]).add(torch.tensor([0, *([1] * len(lengths))])).cumsum(0)
    batch = random_batch(0, num_groups=12, max_length=30).select([2] * len(rewards))
    mask = torch.ones(int(bounds[-1]), dtype=torch.bool).index_fill(0, bounds[:-1], value=False)
    batch = type(batch)(
        tokens=torch.zeros(int(bounds[-1]), dtype=torch.int64),
        cu_seqlens=bounds.int(),
        positions=torch.zeros(int(bounds[-1]), dtype=torch.int32),
        loss_mask=mask,
        token_fields={"generated": mask},
        sequence_fields={"rewards": torch.tensor(rewards), "group": torch.tensor(group or [0] * len(rewards))},
    )
    found = advantage(batch)["advantages"]
    return [float(found[end - 1]) for end in bounds[1:].tolist()]


def test_by_hand():
    """Rewards 1, 0, 0, 0 of one prompt; for OPO completions of 3, 1, 1, 1 tokens."""
    rewards = [1.0, 0.0, 0.0, 0.0]

    assert _by_hand(Rloo(), rewards) == pytest.approx([1, -1 / 3, -1 / 3, -1 / 3])
    assert _by_hand(Opo(), rewards, lengths=[3, 1, 1, 1]) == pytest.approx([0.5, -0.5, -0.5, -0.5])
    assert _by_hand(Gpg(GpgConfig()), rewards) == pytest.approx([0.75, -0.25, -0.25, -0.25])
    assert _by_hand(Gpg(GpgConfig(alpha="nonzero_reward")), rewards) == pytest.approx([3, -1, -1, -1])
    assert _by_hand(PassAtK(PassAtKConfig()), rewards) == pytest.approx([1, 0, 0, 0])
    assert _by_hand(PassAtK(PassAtKConfig(scale="std", eps=0.0)), rewards) == pytest.approx([2, 0, 0, 0])
    assert _by_hand(MaxRl(MaxRlConfig()), rewards) == pytest.approx([3, -1, -1, -1])


def test_two_best_samples_have_no_lead():
    """And three have none either; the second best is not the best's own copy."""
    assert _by_hand(PassAtK(PassAtKConfig()), [1.0, 1.0, 0.0]) == [0.0, 0.0, 0.0]
    assert _by_hand(PassAtK(PassAtKConfig()), [1.0, 0.75, 0.75]) == [0.25, 0.0, 0.0]


def test_gpg_with_a_group_that_is_all_right():
    """Half of the samples teach: alpha 2. verl counts rewards that are not 0: 3 of 4."""
    rewards, groups = [1.0, 0.0, 1.0, 1.0], [0, 0, 1, 1]

    assert _by_hand(Gpg(GpgConfig()), rewards, groups) == pytest.approx([1, -1, 0, 0])
    assert _by_hand(Gpg(GpgConfig(alpha="nonzero_reward")), rewards, groups) == pytest.approx([2 / 3, -2 / 3, 0, 0])


def test_gpg_does_not_correct_twice_for_what_a_rejection_took_out():
    """Without the group that teaches nothing in the loss, alpha is 1."""
    batch = batch_of(3, num_groups=2).select([0, 0, 0, 0])
    batch = batch.with_sequences(rewards=torch.tensor([1.0, 0.0, 1.0, 1.0]), group=torch.tensor([0, 0, 1, 1]))
    kept = batch.with_loss_mask(batch.loss_mask & (batch.sequence_ids < 2))
    before, after = (Gpg(GpgConfig())(one)["advantages"].max().item() for one in (batch, kept))

    assert (before, after) == (1.0, 0.5)


def test_gdpo_tells_apart_what_the_sum_mixes_up():
    """A reward of scale 100 hides one of scale 1 in the sum; compared by themselves, both count alike."""
    batch = batch_of(4).select([0, 0, 0])
    parts = {"rewards/a": torch.tensor([0.0, 1.0, 1.0]), "rewards/b": torch.tensor([0.0, 0.0, 100.0])}
    ones = {f"reward_weights/{name}": torch.ones(3) for name in "ab"}
    batch = batch.with_sequences(
        group=torch.zeros(3, dtype=torch.int64), rewards=parts["rewards/a"] + parts["rewards/b"], **parts, **ones
    )
    starts = [
        int(mask.nonzero()[0]) + int(begin)
        for mask, begin in zip(batch.loss_mask.split(batch.lengths.tolist()), batch.cu_seqlens, strict=False)
    ]

    def of(**options):
        return Gdpo(GdpoConfig(batch_norm=False, **options))(batch)["advantages"][starts].tolist()

    mixed, apart = of(order="sum_then_normalise"), of()
    assert abs(mixed[0] - mixed[1]) < 0.02
    assert apart[1] - apart[0] == pytest.approx(3**0.5, rel=1e-4)
    assert apart[2] - apart[1] == pytest.approx(3**0.5, rel=1e-4)


ADVANTAGES = [
    Rloo(),
    Opo(),
    Gpg(GpgConfig(scale="std")),
    PassAtK(PassAtKConfig(scale="std")),
    MaxRl(MaxRlConfig()),
    MaxRl(MaxRlConfig(at_zero="eps")),
]


@pytest.mark.parametrize("advantage", ADVANTAGES, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize(
    "rewards",
    [[0.5] * 4, [0.0] * 4, [math.nan] * 4, [math.nan, 0.3, math.nan, math.nan], [-1.0] * 4],
    ids=["equal", "zero", "failed", "one left", "negative"],
)
def test_nothing_to_compare_is_zero(advantage, rewards):
    """Equal rewards, failed ones, a single one."""
    assert _by_hand(advantage, rewards) == [0.0] * 4


@pytest.mark.parametrize("advantage", ADVANTAGES, ids=lambda one: type(one).__name__)
def test_an_empty_mask_is_zero(advantage):
    """Every token was rejected."""
    batch = batch_of(1)
    batch = batch.with_loss_mask(torch.zeros_like(batch.loss_mask))

    assert not advantage(batch)["advantages"].any()


@pytest.mark.parametrize("advantage", ADVANTAGES, ids=lambda one: type(one).__name__)
@given(seed=st.integers(0, 500), random=st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=15)
def test_the_order_of_packing_does_not_matter(advantage, seed, random):
    """Sequences of a group may lie anywhere in the batch."""
    batch = batch_of(seed)
    order = list(range(batch.num_sequences))
    random.shuffle(order)
    whole, packed = (advantage(one)["advantages"] for one in (batch, batch.select(order)))

    assert torch.allclose(packed, whole[batch.token_indices(order)], rtol=1e-5, atol=1e-7)
