"""Policy gradients with a detached weight: `cispo`, `aipo`, `topr`, `rollout_is`."""

from __future__ import annotations

import math

import attrs
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.config.load import load_run_file
from core_rl.config.selection import Selection
from core_rl.testing.batches import in_double, random_batch
from core_rl.testing.losses import (
    assert_equals_reference,
    assert_finite,
    assert_same_for_any_split,
    assert_same_in_any_order,
    random_split,
    value_and_gradient,
)
from core_rl_cispo.aipo import Aipo
from core_rl_cispo.checks import check
from core_rl_cispo.cispo import Cispo
from core_rl_cispo.config import AipoConfig, CispoConfig, RolloutIsConfig, ToprConfig
from core_rl_cispo.rollout_is import RolloutIs
from core_rl_cispo.topr import Topr


def load(tmp_path, algorithm):
    file = tmp_path / "run.yaml"
    model = 'model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}'
    data = "data: {name: jsonl, path: rows.jsonl}"
    file.write_text(f"{model}\n{data}\nrewards: [math]\nalgorithm: {algorithm}\n")
    return load_run_file(file)


KINDS = {
    "cispo": (Cispo, CispoConfig),
    "aipo": (Aipo, AipoConfig),
    "topr": (Topr, ToprConfig),
    "rollout_is": (RolloutIs, RolloutIsConfig),
}
CASES = [
    ("cispo", {"clip_high": 0.3}),
    ("cispo", {"clip_low": 0.2, "clip_high": 0.28}),
    ("cispo", {"clip_low": 0.5, "clip_high": 1.2, "bounds": "absolute"}),
    ("cispo", {"tau": 0.3}),
    ("aipo", {"cap": 1.2}),
    ("aipo", {"cap": 1.2, "differentiable": True}),
    ("aipo", {"cap": 1.2, "differentiable": True, "behaviour": "old"}),
    ("topr", {}),
    ("topr", {"level": "token", "sign": "advantage", "positive_weight": 0.5, "negative_weight": 2.0}),
    ("topr", {"level": "geometric", "cap": 0.9}),
    ("rollout_is", {"clip_low": 0.3, "clip_high": 0.6}),
]


def make(case):
    loss, config = KINDS[case[0]]
    return loss(config(**case[1]))


def reference(case):
    """Token by token from the papers."""
    name, options = case
    config = KINDS[name][1](**options)

    def topr(row, at):
        a, p = row["advantages"][at], row["logprobs"][at]
        good = a.item() > 0 if config.sign == "advantage" else row["raw_rewards"] > 0
        if good:
            return -config.positive_weight * a * p
        shifts = [x.item() - y.item() for x, y in zip(row["logprobs"], row["old_logprobs"], strict=True)]
        exponent = {"token": shifts[at], "sequence": sum(shifts), "geometric": sum(shifts) / len(shifts)}[config.level]
        return -config.negative_weight * min(math.exp(exponent), config.cap) * a * p

    def one(row, at):
        p, a = row["logprobs"][at], row["advantages"][at]
        if name == "topr":
            return topr(row, at)
        if name == "cispo":
            low, high = config.clip_low, config.clip_high
            if config.bounds == "relative":
                low, high = 1 - low if low is not None else 0.0, 1 + high
            shift = p.item() - row["old_logprobs"][at].item()
            return -min(max(math.exp(shift), low), high) * (a - config.tau * shift) * p
        below = "old_logprobs" if options.get("behaviour") == "old" else "rollout_logprobs"
        w = torch.exp(p - row[below][at])
        if name == "rollout_is":
            return -(w.item() if 1 - config.clip_low < w.item() < 1 + config.clip_high else 0.0) * a * p
        if config.differentiable:
            return -w * a if w.item() < config.cap else -config.cap * a + 0 * p
        return -min(w.item(), config.cap) * a * p

    return lambda row: [one(row, at) for at in range(len(row["logprobs"]))]


@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum-norm", "prompt-mean"])
@pytest.mark.parametrize("case", CASES, ids=str)
@given(seed=st.integers(0, 500), ranks=st.sampled_from([1, 2, 4]), random=st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=8)
def test_the_gradient_does_not_depend_on_how_a_batch_is_cut_up(case, aggregation, seed, ranks, random):
    """Any ranks, micro-batches and order of packing."""
    count = random_batch(seed).num_sequences
    order = random.sample(range(count), count)

    assert_same_for_any_split(make(case), seed, random_split(random, count, ranks), aggregation=aggregation)
    assert_same_in_any_order(make(case), seed, order, aggregation=aggregation)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_extremes_stay_finite(case):
    """Log-ratios of 50 and 1e4 either way, probability 1, an empty mask, one sequence."""
    assert_finite(make(case))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_value_and_gradient_are_those_of_the_paper(case):
    """Inside and outside of every bound, both signs of the advantage."""
    assert_equals_reference(make(case), reference(case))


@pytest.mark.parametrize("case", [("cispo", {}), ("aipo", {}), ("aipo", {"differentiable": True}), ("rollout_is", {})], ids=str)
def test_at_ratio_one_it_is_reinforce(case):
    """Gradient -A."""
    batch = in_double(random_batch(1))
    batch = batch.with_tokens(old_logprobs=batch["logprobs"], rollout_logprobs=batch["logprobs"])

    assert torch.allclose(value_and_gradient(make(case), batch)[1], -batch["advantages"].where(batch.loss_mask, 0.0))


def test_cispo_never_takes_a_gradient_away():
    """Where PPO-clip would have none: a ratio of e with A > 0 has the gradient of the bound."""
    batch = in_double(random_batch(1))
    batch = batch.with_tokens(old_logprobs=batch["logprobs"] - 1.0, advantages=torch.ones(batch.num_tokens).double())
    _, grad = value_and_gradient(make(("cispo", {"clip_high": 0.2})), batch)

    assert grad[batch.loss_mask].tolist() == pytest.approx([-1.2] * int(batch.loss_mask.sum()))


def test_a_good_sample_of_topr_keeps_its_weight_however_stale():
    """Reward 1 has weight 1; reward -1 at a ratio of 1/e has 1/e; a ratio of e is truncated to 1."""
    batch = in_double(random_batch(1, num_groups=1, group_size=1)).select([0])
    batch = batch.with_loss_mask(torch.arange(batch.num_tokens) == 1).with_tokens(
        advantages=torch.ones(batch.num_tokens).double()
    )

    def weight(reward, shift):
        one = batch.with_tokens(old_logprobs=batch["logprobs"] - shift).with_sequences(raw_rewards=torch.tensor([reward]))
        return -value_and_gradient(make(("topr", {})), one)[1][1].item()

    assert [weight(1.0, -1.0), weight(1.0, 1.0)] == [1.0, 1.0]
    assert [weight(-1.0, -1.0), weight(-1.0, 1.0)] == pytest.approx([math.exp(-1), 1.0])


def test_algorithms(tmp_path):
    """Token mean; TOPR's advantages are its rewards, and its log-probabilities those of whole sequences."""
    cispo, aipo, topr = (load(tmp_path, name).algorithm.options for name in ("cispo", "aipo", "topr"))

    assert [one.loss.name for one in (cispo, aipo, topr)] == ["cispo", "aipo", "topr"]
    assert [one.aggregation.name for one in (cispo, aipo, topr)] == ["token-mean", "token-mean", "seq-mean-token-sum"]
    assert (cispo.loss.options.low, cispo.loss.options.high) == (0.0, 5.0)
    assert (topr.advantage.options.mean_level, topr.advantage.options.std_level) == ("none", "none")


def test_absolute_bounds_are_in_order():
    """clip_high under clip_low is told."""
    with pytest.raises(ValueError, match="must be at least clip_low, 2, found 1"):
        CispoConfig(bounds="absolute", clip_low=2.0, clip_high=1.0)


@pytest.mark.parametrize(
    ("algorithm", "refused"),
    [
        ("aipo", True),
        ("{name: aipo, loss: {behaviour: old}}", False),
        ("{name: cispo, loss: rollout_is}", True),
        ("cispo", False),
        ("topr", False),
    ],
)
def test_a_second_weight_for_the_rollout_is_refused(tmp_path, algorithm, refused):
    """A ratio to the rollout policy has the correction in it; one to the old policy has not."""
    file = load(tmp_path, algorithm)
    weight = Selection(kind="rejection", name="tis")
    chosen = attrs.evolve(file.algorithm, options=attrs.evolve(file.algorithm.options, rejections=(weight,)))
    problems = check(attrs.evolve(file, algorithm=chosen))

    assert [(one.path, "would count it twice" in one.message) for one in problems] == [
        ("algorithm.rejections.0", True)
    ] * refused


def test_the_two_forms_of_aipo_differ_beyond_the_cap():
    """A ratio of e with a cap of 2: the paper's weight is 2, the differentiable form's gradient 0; under the cap both are the ratio."""
    batch = in_double(random_batch(1))

    def grad(shift, *, differentiable):
        far = {"rollout_logprobs": batch["logprobs"] - shift, "advantages": torch.ones(batch.num_tokens).double()}
        loss = make(("aipo", {"differentiable": differentiable}))
        return value_and_gradient(loss, batch.with_tokens(**far))[1][batch.loss_mask]

    assert torch.allclose(grad(1.0, differentiable=False), torch.tensor(-2.0).double())
    assert not grad(1.0, differentiable=True).any()
    for differentiable in (False, True):
        assert torch.allclose(grad(0.5, differentiable=differentiable), torch.tensor(-math.exp(0.5)).double())


def test_rollout_is_has_no_gradient_outside_of_its_band():
    """Ratios of 0.79 and e^0.5 are out for either sign of A, 1.1 counts in full."""
    batch = in_double(random_batch(1))

    def grad(shift):
        return value_and_gradient(make(("rollout_is", {})), batch.with_tokens(rollout_logprobs=batch["logprobs"] - shift))[1]

    assert not grad(math.log(0.79)).any()
    assert not grad(0.5).any()
    assert torch.allclose(grad(math.log(1.1)), (-1.1 * batch["advantages"]).where(batch.loss_mask, 0.0))


@pytest.mark.parametrize("failed", [math.nan, 0.0])
def test_a_failed_reward_teaches_nothing(failed):
    """NaN is no good sample, and its advantage is 0: neither value nor gradient."""
    batch = in_double(random_batch(1, num_groups=1, group_size=1)).select([0])
    batch = batch.with_sequences(raw_rewards=torch.tensor([failed])).with_tokens(
        advantages=torch.zeros(batch.num_tokens).double()
    )
    values, grad = value_and_gradient(make(("topr", {})), batch)

    assert not values.any()
    assert not grad.any()
