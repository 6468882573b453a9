"""Trust regions by divergence: `dppo_tv`, `dppo_kl`, `prime`."""

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
from core_rl_dppo.checks import check
from core_rl_dppo.config import DppoKlConfig, DppoTvConfig, PrimeConfig
from core_rl_dppo.dppo import DppoKl, DppoTv, binary_kl
from core_rl_dppo.prime import Prime


def load(tmp_path, algorithm):
    file = tmp_path / "run.yaml"
    model = 'model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}'
    data = "data: {name: jsonl, path: rows.jsonl}"
    file.write_text(f"{model}\n{data}\nrewards: [math]\nalgorithm: {algorithm}\n")
    return load_run_file(file)


KINDS = {"dppo_tv": (DppoTv, DppoTvConfig), "dppo_kl": (DppoKl, DppoKlConfig), "prime": (Prime, PrimeConfig)}
CASES = [
    ("dppo_tv", {"delta_low": 0.05, "delta_high": 0.1}),
    ("dppo_tv", {"delta_low": 0.1, "delta_high": 0.05, "behaviour": "old", "weight_cap": 1.3}),
    ("dppo_kl", {"delta_low": 0.02, "delta_high": 0.05}),
    ("dppo_kl", {"delta_low": 0.05, "delta_high": 0.02, "behaviour": "old", "weight_cap": 3.0}),
    ("prime", {"delta_low": 0.1, "delta_high": 0.05, "kl_tau": 0.3}),
    ("prime", {"delta_low": 0.05, "delta_high": 0.05, "mask": "symmetric", "advantage_tau": 0.5}),
]


def make(case):
    loss, config = KINDS[case[0]]
    return loss(config(**case[1]))


def divergence(q, p):
    q, p = min(q, 1.0), min(p, 1.0)
    if q == 1.0:
        return -math.log(p)
    return math.inf if p == 1.0 else q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p))


def reference(case):
    """Token by token from the paper."""
    name, options = case
    config = KINDS[name][1](**options)

    def one(p, behaviour, a):
        moved = math.exp(p.item()) - math.exp(behaviour.item())
        r = torch.exp(p - behaviour)
        if name == "prime":
            up, down = moved > config.delta_high, moved < -config.delta_low
            out = up or down if config.mask == "symmetric" else (a > 0 and up) or (a < 0 and down)
            return (0.0 if out else -config.advantage_tau) * a * r + config.kl_tau * (p - behaviour) ** 2
        far = abs(moved)
        if name == "dppo_kl":
            far = divergence(math.exp(behaviour.item()), math.exp(p.item()))
        out = (a > 0 and moved > 0 and far > config.delta_high) or (a < 0 and moved < 0 and far > config.delta_low)
        if out:
            return 0 * p
        return -r * a if config.weight_cap is None else -min(r.item(), config.weight_cap) * a * p

    behaviour = "old_logprobs" if options.get("behaviour") == "old" else "rollout_logprobs"
    return lambda row: [one(p, q, a) for p, q, a in zip(row["logprobs"], row[behaviour], row["advantages"], strict=True)]


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


@pytest.mark.parametrize("name", ["dppo_tv", "dppo_kl"])
def test_on_policy_it_is_reinforce(name):
    """Gradient -A."""
    batch = in_double(random_batch(1))
    batch = batch.with_tokens(rollout_logprobs=batch["logprobs"])

    assert torch.allclose(value_and_gradient(make((name, {})), batch)[1], -batch["advantages"].where(batch.loss_mask, 0.0))


def test_a_rare_token_may_change_its_ratio_a_lot():
    """From 0.001 to 0.01 is a ratio of 10 that PPO would clip, and 0.009 of probability: inside. From 0.5 to 0.8 is out."""
    batch = in_double(random_batch(1, num_groups=1, group_size=1)).select([0])
    batch = batch.with_loss_mask(torch.arange(batch.num_tokens) == 1).with_tokens(
        advantages=torch.ones(batch.num_tokens).double()
    )

    def slope(before, after):
        at = {"logprobs": torch.full_like(batch["logprobs"], math.log(after))}
        at["rollout_logprobs"] = torch.full_like(batch["logprobs"], math.log(before))
        return value_and_gradient(make(("dppo_tv", {})), batch.with_tokens(**at))[1][1].item()

    assert slope(0.001, 0.01) == pytest.approx(-10.0)
    assert slope(0.5, 0.8) == 0.0


def test_a_token_on_its_way_back_keeps_its_gradient():
    """Out of the region with an advantage that pulls it in."""
    batch = in_double(random_batch(1))
    batch = batch.with_tokens(
        rollout_logprobs=torch.full_like(batch["logprobs"], math.log(0.9)),
        logprobs=torch.full_like(batch["logprobs"], math.log(0.3)),
        advantages=torch.ones(batch.num_tokens).double(),
    )
    for name in ("dppo_tv", "dppo_kl"):
        assert (value_and_gradient(make((name, {})), batch)[1][batch.loss_mask] < 0).all()


def test_the_binary_kl_by_hand_and_at_the_edges():
    """KL(1/2 || 1/4) is half of log 2 + log(2/3); equal certain tokens have 0; a certain one that became uncertain is finite."""
    half, quarter, zero = (torch.tensor([math.log(p)]) for p in (0.5, 0.25, 1.0))

    assert binary_kl(half, quarter).item() == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(0.5 / 0.75), rel=1e-6)
    assert binary_kl(zero, zero).item() == 0.0
    assert binary_kl(zero, half).item() == pytest.approx(math.log(2), rel=1e-6)
    assert binary_kl(half, zero).item() == math.inf


@pytest.mark.parametrize(("name", "delta"), [("dppo_tv", 0.15), ("dppo_kl", 0.05), ("prime", 0.2)])
def test_algorithms(tmp_path, name, delta):
    """Each with the deltas of its authors, token mean."""
    options = load(tmp_path, name).algorithm.options

    assert (options.loss.name, options.aggregation.name) == (name, "token-mean")
    assert (options.loss.options.delta_low, options.loss.options.delta_high) == (delta, delta)
    assert options.advantage.options.std_level == ("none" if name == "prime" else "group")


@pytest.mark.parametrize(("delta", "fall", "rise"), [(0.2, 0.62, 0.99), (0.05, 0.78, 0.96)])
def test_how_far_a_kl_lets_a_likely_token_go(delta, fall, rise):
    """From 0.9: down to these, and up to these, but not 0.02 further down or half of the way to 1 further up."""
    likely = torch.tensor([0.9]).double().log()

    def inside(after):
        return binary_kl(likely, torch.tensor([after]).double().log()).item() <= delta

    assert [inside(fall + 0.01), inside(fall - 0.02)] == [True, False]
    assert [inside(rise), inside((1 + rise) / 2)] == [True, False]


@pytest.mark.parametrize(
    ("algorithm", "refused"),
    [("dppo_tv", True), ("dppo_kl", True), ("prime", True), ("{name: dppo_tv, loss: {behaviour: old}}", False)],
)
def test_a_second_weight_for_the_rollout_is_refused(tmp_path, algorithm, refused):
    """The ratio to the rollout policy has the correction in it; the one to the old policy has not."""
    file = load(tmp_path, algorithm)
    weight = Selection(kind="rejection", name="core-rl-rejections/tis")
    chosen = attrs.evolve(file.algorithm, options=attrs.evolve(file.algorithm.options, rejections=(weight,)))
    problems = check(attrs.evolve(file, algorithm=chosen))

    assert [(one.path, "would count it twice" in one.message) for one in problems] == [
        ("algorithm.rejections.0", True)
    ] * refused
