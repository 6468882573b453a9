"""The loss and the algorithm `vespo`."""

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
from core_rl_vespo.checks import check
from core_rl_vespo.config import VespoConfig
from core_rl_vespo.vespo import Vespo


def load(tmp_path, algorithm):
    file = tmp_path / "run.yaml"
    model = 'model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}'
    data = "data: {name: jsonl, path: rows.jsonl}"
    file.write_text(f"{model}\n{data}\nrewards: [math]\nalgorithm: {algorithm}\n")
    return load_run_file(file)


LOSSES = [{}, {"behaviour": "old", "k_positive": 1.0, "lambda_negative": 4.0}]


def make(options):
    return Vespo(VespoConfig(**options))


def reference(options):
    """phi(W) = e^lambda W^k e^(-lambda W), with W the product over the sequence."""
    config = VespoConfig(**options)
    behaviour = "rollout_logprobs" if config.behaviour == "rollout" else "old_logprobs"

    def losses(row):
        log_w = sum(p.detach() - q for p, q in zip(row["logprobs"], row[behaviour], strict=True)).clamp(math.log(1e-8), 20.0)
        values = []
        for p, a in zip(row["logprobs"], row["advantages"], strict=True):
            good = a.item() >= 0
            k = config.k_positive if good else config.k_negative
            lam = config.lambda_positive if good else config.lambda_negative
            w = log_w.exp()
            values.append(-(math.exp(lam) * w**k * torch.exp(-lam * w)) * a * p)
        return values

    return losses


@pytest.mark.parametrize("options", LOSSES, ids=str)
def test_value_and_gradient_are_those_of_the_paper(options):
    """Both signs, weights far from 1."""
    assert_equals_reference(make(options), reference(options), spread=0.3)


def test_on_policy_it_is_reinforce():
    """W = 1 has weight 1 whatever k and lambda are."""
    batch = in_double(random_batch(1))
    batch = batch.with_tokens(rollout_logprobs=batch["logprobs"])
    _, grad = value_and_gradient(make({"k_negative": 5.0, "lambda_positive": 0.3}), batch)

    assert torch.allclose(grad, -batch["advantages"].where(batch.loss_mask, 0.0))


def test_the_weight_peaks_at_k_over_lambda():
    """The maximum of W^k e^(-lambda W): a sequence twice as likely has less than one at 2/3 of its likelihood, for (2, 3)."""
    batch = in_double(random_batch(2, num_groups=1, group_size=1)).select([0])
    mask = torch.arange(batch.num_tokens) == 1
    batch = batch.with_loss_mask(mask).with_tokens(advantages=torch.ones(batch.num_tokens).double())

    def slope(ratio):
        return value_and_gradient(make({}), batch.with_tokens(rollout_logprobs=batch["logprobs"] - math.log(ratio)))[1][
            1
        ].item()

    assert slope(2 / 3) < slope(0.6) < 0
    assert slope(2 / 3) < slope(0.75) < slope(2.0) < 0


@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum-norm", "prompt-mean"])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
@given(seed=st.integers(0, 500), ranks=st.sampled_from([1, 2, 4]), random=st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=12)
def test_the_gradient_does_not_depend_on_how_a_batch_is_cut_up(loss, aggregation, seed, ranks, random):
    """Any ranks, micro-batches and order of packing."""
    count = random_batch(seed).num_sequences
    order = random.sample(range(count), count)

    assert_same_for_any_split(make(loss), seed, random_split(random, count, ranks), aggregation=aggregation)
    assert_same_in_any_order(make(loss), seed, order, aggregation=aggregation)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_extremes_stay_finite(loss):
    """Log-ratios of 50 and 1e4 either way, probability 1, an empty mask, one sequence."""
    assert_finite(make(loss))


def test_the_algorithm(tmp_path):
    """Token mean, the paper's shapes."""
    options = load(tmp_path, "vespo").algorithm.options

    assert (options.loss.name, options.aggregation.name) == ("vespo", "token-mean")
    assert (options.loss.options.k_positive, options.loss.options.lambda_positive) == (2.0, 3.0)


def test_a_hopeless_sequence_is_let_go():
    """A ratio of e^5 has a weight below 1e-180 for both signs, one of e^-20 (the floor is 1e-8) below 1e-14: no gradient worth the name."""
    batch = in_double(random_batch(3, num_groups=2, group_size=1)).select([0])
    one = batch.with_loss_mask(torch.arange(batch.num_tokens) == 1)

    def slope(log_ratio, advantage):
        far = {"rollout_logprobs": one["logprobs"] - log_ratio, "advantages": torch.full_like(one["logprobs"], advantage)}
        return abs(value_and_gradient(make({}), one.with_tokens(**far))[1][1].item())

    for advantage in (1.0, -1.0):
        assert slope(5.0, advantage) < 1e-100
        assert slope(-20.0, advantage) < 1e-14


@pytest.mark.parametrize(("algorithm", "refused"), [("vespo", True), ("{name: vespo, loss: {behaviour: old}}", False)])
def test_a_second_weight_for_the_rollout_is_refused(tmp_path, algorithm, refused):
    """The ratio to the rollout policy has the correction in it; the one to the old policy has not."""
    file = load(tmp_path, algorithm)
    weight = Selection(kind="rejection", name="tis")
    chosen = attrs.evolve(file.algorithm, options=attrs.evolve(file.algorithm.options, rejections=(weight,)))
    problems = check(attrs.evolve(file, algorithm=chosen))

    assert [(one.path, "would count it twice" in one.message) for one in problems] == [
        ("algorithm.rejections.0", True)
    ] * refused
