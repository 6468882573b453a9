"""The gradient of GRPO's objective does not depend on how a batch is cut up, and it is the right one."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.config.algorithm import KlConfig
from core_rl.numerics.aggregation import Aggregator
from core_rl.numerics.names import Aggregation
from core_rl.objective import PolicyObjective
from core_rl.testing.batches import random_batch
from core_rl.testing.invariance import gradient
from core_rl_grpo.config import PpoClipConfig
from core_rl_grpo.ppo_clip import PpoClip

from .reference import ppo_clip

NAMES = get_args(Aggregation)
PARTS = {
    "plain": {"kl": KlConfig()},
    "kl": {"kl": KlConfig(coef=0.2, unbiased=True)},
    "entropy": {"kl": KlConfig(), "entropy_coef": 0.05},
    "reuse": {"kl": KlConfig(coef=0.1, estimator="k3+"), "entropy_coef": 0.01, "proximal": "reuse"},
}


def _cut(draw, sequences, ranks):
    """Sequences over ranks, and each rank's over micro-batches, in any order; some ranks may have nothing."""
    order = draw(st.permutations(sequences))
    owner = [draw(st.integers(0, ranks - 1)) for _ in order]
    result = []
    for rank in range(ranks):
        mine = [s for s, o in zip(order, owner, strict=True) if o == rank]
        size = draw(st.integers(1, 4))
        result.append([mine[start : start + size] for start in range(0, len(mine), size)])
    return result


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("parts", PARTS)
@given(data=st.data(), seed=st.integers(0, 500), ranks=st.sampled_from([1, 2, 4]))
@settings(deadline=None, max_examples=25)
def test_any_split_has_the_same_loss_gradient_and_metrics(name, parts, data, seed, ranks):
    """1, 2 or 4 ranks, any micro-batches, any order; ragged, with a wholly masked sequence."""
    batch = random_batch(seed)
    objective, aggregation = (
        PolicyObjective(PpoClip(PpoClipConfig(dual_clip=2.0)), **PARTS[parts]),
        Aggregator(name, scale_length=12),
    )
    whole = gradient(objective, aggregation, batch)
    cut = gradient(objective, aggregation, batch, _cut(data.draw, range(batch.num_sequences), ranks))

    assert torch.equal(cut.logprobs, whole.logprobs)
    assert torch.equal(cut.entropy, whole.entropy)
    assert cut.loss == pytest.approx(whole.loss, rel=1e-4, abs=1e-5)
    assert cut.metrics == pytest.approx(whole.metrics, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 500), random=st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=25)
def test_any_order_of_packing_has_the_same_gradient(name, seed, random):
    """The same sequences packed in another order: the gradient of a token goes along with it."""
    batch = random_batch(seed)
    order = list(range(batch.num_sequences))
    random.shuffle(order)
    objective = PolicyObjective(PpoClip(PpoClipConfig()), kl=KlConfig(coef=0.1), entropy_coef=0.1)
    aggregation = Aggregator(name, scale_length=12)
    whole, packed = (gradient(objective, aggregation, b) for b in (batch, batch.select(order)))

    assert torch.allclose(packed.logprobs, whole.logprobs[batch.token_indices(order)], rtol=1e-6, atol=0)
    assert packed.loss == pytest.approx(whole.loss, rel=1e-4, abs=1e-5)


def _references(batch, masks, losses, groups, scale):
    """The six aggregations by their definitions, on one list of (loss, derivative) pairs per sequence."""
    kept = [[pair for pair, m in zip(row, mask, strict=True) if m] for row, mask in zip(losses, masks, strict=True)]
    alive = sum(bool(row) for row in kept)
    prompts = {g: sum(len(row) for row, h in zip(kept, groups, strict=True) if h == g) for g in groups}
    per = {
        "token-mean": lambda i: sum(map(len, kept)),
        "token-sum": lambda i: 1,
        "seq-mean-token-mean": lambda i: alive * len(kept[i]),
        "seq-mean-token-sum": lambda i: alive,
        "seq-mean-token-sum-norm": lambda i: alive * scale,
        "prompt-mean": lambda i: prompts[groups[i]] * sum(count > 0 for count in prompts.values()),
    }
    return {
        name: [
            [(x[0] / of(i), x[1] / of(i)) if m else (0.0, 0.0) for x, m in zip(row, mask, strict=True)]
            for i, (row, mask) in enumerate(zip(losses, masks, strict=True))
        ]
        for name, of in per.items()
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(4))
def test_loss_and_gradient_are_those_of_the_definition(name, seed):
    """PPO-clip under every aggregation, by value and gradient, against float64 loops."""
    batch = random_batch(seed, num_groups=4)
    batch = batch.with_tokens(weights=torch.ones(batch.num_tokens))
    lengths = batch.lengths.tolist()
    columns = [[row.tolist() for row in batch[n].double().split(lengths)] for n in ("logprobs", "old_logprobs", "advantages")]
    losses = [[ppo_clip(*token) for token in zip(*row, strict=True)] for row in zip(*columns, strict=True)]
    masks = [row.tolist() for row in batch.loss_mask.split(lengths)]
    expected = _references(batch, masks, losses, batch["group"].tolist(), 12)[name]
    found = gradient(PolicyObjective(PpoClip(PpoClipConfig()), kl=KlConfig()), Aggregator(name, scale_length=12), batch)

    assert found.loss == pytest.approx(sum(x for row in expected for x, _ in row), rel=1e-5, abs=1e-6)
    assert found.logprobs.tolist() == pytest.approx([slope for row in expected for _, slope in row], rel=1e-4, abs=1e-7)
