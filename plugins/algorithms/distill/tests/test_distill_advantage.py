"""The log-ratio to the teacher as an advantage, alone and beside one of rewards."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from core_rl.component import Component
from core_rl.config.selection import Selection
from core_rl.data.batch import PackedBatch
from core_rl.testing.batches import in_double, random_batch
from core_rl_distill.advantage import Distill, Zero
from core_rl_distill.config import DistillConfig
from core_rl_grpo.config import GroupNormConfig, PpoClipConfig
from core_rl_grpo.group_norm import GroupNorm
from core_rl_grpo.ppo_clip import PpoClip

from . import distill_reference as reference

GROUP_NORM = Selection(
    kind="advantage",
    name="group_norm",
    options=GroupNormConfig(),
    component=Component(
        name="group_norm", target="core_rl_grpo.group_norm:GroupNorm", config="core_rl_grpo.config:GroupNormConfig"
    ),
)


@pytest.mark.parametrize("discount", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_every_token_gets_its_own_and_what_follows(seed, discount):
    """Loops over each sequence; a tool's tokens have none, add none, and count in the distance."""
    batch = in_double(random_batch(seed))
    found = Distill(DistillConfig(coef=0.7, discount=discount))(batch)["advantages"]
    bounds = batch.cu_seqlens.tolist()
    expected = []
    for start, end in pairwise(bounds):
        part = slice(start, end)
        lists = (batch[name][part].tolist() for name in ("teacher_logprobs", "old_logprobs"))
        expected += reference.advantages(*lists, batch.loss_mask[part].tolist(), coef=0.7, discount=discount)

    assert found.tolist() == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_by_hand():
    """Log-ratios 1, -2, 0.5 with discount 0.5: 0.5, then -2 + 0.25, then 1 - 1 + 0.125."""
    batch = PackedBatch(
        tokens=torch.zeros(4, dtype=torch.int64),
        cu_seqlens=torch.tensor([0, 4], dtype=torch.int32),
        positions=torch.arange(4, dtype=torch.int32),
        loss_mask=torch.tensor([False, True, True, True]),
        token_fields={"teacher_logprobs": torch.tensor([9.0, 1.0, -2.0, 0.5]), "old_logprobs": torch.zeros(4)},
    )
    found = Distill(DistillConfig(discount=0.5))(batch)["advantages"]

    assert found.tolist() == [0.0, 0.125, -1.75, 0.5]


def test_an_advantage_of_rewards_is_added():
    """base_coef times the base; what else the base returns stays."""
    batch = random_batch(5)
    alone = Distill(DistillConfig(coef=0.5))(batch)["advantages"]
    base = GroupNorm(GroupNormConfig())(batch)["advantages"]
    mixed = Distill(DistillConfig(coef=0.5, base=GROUP_NORM, base_coef=2.0))(batch)["advantages"]

    assert torch.allclose(mixed, alone + 2.0 * base)


def test_a_failed_reward_leaves_what_the_teacher_says():
    """NaN is in the base's share alone, as 0."""
    batch = random_batch(5)
    failed = batch.with_sequences(rewards=torch.full_like(batch["rewards"], torch.nan))
    mixed = Distill(DistillConfig(base=GROUP_NORM))(failed)["advantages"]

    assert torch.equal(mixed, Distill(DistillConfig())(batch)["advantages"])


def test_where_nothing_is_to_be_learnt_it_is_zero():
    """Equal models, and tokens outside the mask, whatever stands there; an empty mask."""
    batch = random_batch(2)
    equal = batch.with_tokens(teacher_logprobs=batch["old_logprobs"])
    broken = batch.with_tokens(teacher_logprobs=batch["teacher_logprobs"].where(batch.loss_mask, torch.nan))
    empty = batch.with_loss_mask(torch.zeros_like(batch.loss_mask))
    distill = Distill(DistillConfig(discount=1.0))

    assert (distill(equal)["advantages"] == 0).all()
    assert torch.equal(distill(broken)["advantages"], distill(batch)["advantages"])
    assert (distill(empty)["advantages"] == 0).all()
    assert (Zero()(batch)["advantages"] == torch.zeros(batch.num_tokens)).all()


@pytest.mark.parametrize("seed", [1, 2])
def test_the_policy_gradient_is_that_of_the_kl(seed):
    """One place, every token weighed by its probability: ppo_clip on this advantage moves logits along -grad KL(pi || teacher)."""
    random = torch.Generator().manual_seed(seed)
    logits, other = torch.randn(2, 7, generator=random, dtype=torch.float64).unbind()
    logits.requires_grad_()
    student, teacher = logits.log_softmax(-1), other.log_softmax(-1)
    (true,) = torch.autograd.grad((student.exp() * (student - teacher)).sum(), logits)
    one = random_batch(0, num_groups=1, group_size=1)
    batch = one.with_loss_mask(torch.ones(7, dtype=torch.bool)).with_tokens(
        teacher_logprobs=teacher, old_logprobs=student.detach()
    )
    advantages = batch["teacher_logprobs"] - batch["old_logprobs"]
    values = PpoClip(PpoClipConfig())(logits.log_softmax(-1), batch.with_tokens(advantages=advantages)).values
    (found,) = torch.autograd.grad((student.exp().detach() * values).sum(), logits)

    assert torch.allclose(found, true, atol=1e-12)
