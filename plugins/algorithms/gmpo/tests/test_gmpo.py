"""The loss and the algorithm `gmpo`."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.config.load import load_run_file
from core_rl.errors import ConfigError
from core_rl.testing.batches import in_double, random_batch
from core_rl.testing.losses import (
    assert_equals_reference,
    assert_finite,
    assert_same_for_any_split,
    assert_same_in_any_order,
    random_split,
    value_and_gradient,
)
from core_rl_gmpo.config import GmpoConfig
from core_rl_gmpo.gmpo import Gmpo


def load(tmp_path, algorithm):
    file = tmp_path / "run.yaml"
    model = 'model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}'
    data = "data: {name: jsonl, path: rows.jsonl}"
    file.write_text(f"{model}\n{data}\nrewards: [math]\nalgorithm: {algorithm}\n")
    return load_run_file(file).algorithm.options


LOSSES = [{}, {"clip_low": 0.1, "clip_high": 0.2}, {"clip_low": 0.0, "clip_high": 0.0}]


def make(options):
    return Gmpo(GmpoConfig(**options))


def reference(options):
    """Equation 4, with the sign of the advantage written out."""
    config = GmpoConfig(**options)

    def losses(row):
        kept = []
        for p, q, a in zip(row["logprobs"], row["old_logprobs"], row["advantages"], strict=True):
            sign, x = math.copysign(1.0, a.item()), p - q
            clipped = torch.tensor(min(max(x.item(), -config.clip_low), config.clip_high), dtype=torch.float64)
            kept.append(x if sign * x.item() <= sign * clipped.item() else clipped)
        mean = torch.exp(sum(kept) / len(kept))
        return [-a * mean for a in row["advantages"]]

    return losses


@pytest.mark.parametrize("options", LOSSES, ids=str)
def test_value_and_gradient_are_those_of_the_paper(options):
    """Tokens inside and outside of the bounds, both signs."""
    assert_equals_reference(make(options), reference(options))


def test_at_ratio_one_it_is_reinforce_on_the_sequence():
    """Value -A; each token's slope -A / L."""
    batch = in_double(random_batch(1, num_groups=4))
    batch = batch.with_tokens(
        old_logprobs=batch["logprobs"], advantages=torch.randn(batch.num_sequences).double()[batch.sequence_ids]
    )
    values, grad = value_and_gradient(make({}), batch)
    mask = batch.loss_mask

    assert torch.allclose(values[mask], -batch["advantages"][mask])
    assert torch.allclose(grad[mask], -batch["advantages"][mask])  # L values of slope -A / L each


def test_a_token_beyond_its_bound_has_no_gradient():
    """Log-ratio 1 with A > 0: the bound holds it; with A < 0 it counts in full."""
    batch = in_double(random_batch(2, num_groups=1, group_size=1)).select([0])
    mask = torch.arange(batch.num_tokens) > 0
    batch = batch.with_loss_mask(mask).with_tokens(old_logprobs=batch["logprobs"] - 1.0)
    up, down = (
        value_and_gradient(make({}), batch.with_tokens(advantages=torch.full_like(batch["logprobs"], a))) for a in (1.0, -1.0)
    )

    assert up[0][mask].tolist() == pytest.approx([-math.exp(0.4)] * int(mask.sum()))
    assert not up[1].any()
    assert down[0][mask].tolist() == pytest.approx([math.e] * int(mask.sum()))
    assert (down[1][mask] > 0).all()


@pytest.mark.parametrize("aggregation", ["seq-mean-token-mean"])
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
    """The paper's bounds, mean over sequences."""
    options = load(tmp_path, "gmpo")

    assert (options.loss.name, options.aggregation.name) == ("gmpo", "seq-mean-token-mean")
    assert (options.loss.options.clip_low, options.loss.options.clip_high) == (0.4, 0.4)


@pytest.mark.parametrize("other", ["token-mean", "core-rl/token-mean", "seq-mean-token-sum"])
def test_another_mean_is_refused(tmp_path, other):
    """One line that says what to take, however the aggregation is named."""
    with pytest.raises(
        ConfigError, match=r"algorithm\.aggregation: loss gmpo is a mean over sequences, and [a-z-]+ is another"
    ):
        load(tmp_path, f"{{name: gmpo, aggregation: {other}}}")
