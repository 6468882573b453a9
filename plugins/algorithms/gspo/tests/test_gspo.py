"""The loss `gspo` and its algorithms."""

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
from core_rl_gspo.config import GspoConfig
from core_rl_gspo.gspo import Gspo


def load(tmp_path, algorithm):
    file = tmp_path / "run.yaml"
    model = 'model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}'
    data = "data: {name: jsonl, path: rows.jsonl}"
    file.write_text(f"{model}\n{data}\nrewards: [math]\nalgorithm: {algorithm}\n")
    return load_run_file(file).algorithm.options


LOSSES = [{}, {"clip_low": 0.2, "clip_high": 0.28}, {"level": "token", "clip_low": 0.1, "clip_high": 0.2}]


def make(options):
    return Gspo(GspoConfig(**options))


def reference(options):
    """Equations 5 to 7, and 13 to 14 for the token form."""
    config = GspoConfig(**options)

    def losses(row):
        shifts = [p - q for p, q in zip(row["logprobs"], row["old_logprobs"], strict=True)]
        s = torch.exp(sum(shifts) / len(shifts))
        values = []
        for p, a in zip(row["logprobs"], row["advantages"], strict=True):
            r = s if config.level == "sequence" else s.detach() * torch.exp(p) / torch.exp(p).detach()
            clipped = min(max(r.item(), 1 - config.clip_low), 1 + config.clip_high)
            values.append(-(r * a) if (r * a).item() <= clipped * a.item() else -clipped * a)
        return values

    return losses


@pytest.mark.parametrize("options", LOSSES, ids=str)
def test_value_and_gradient_are_those_of_the_paper(options):
    """Sequences inside and outside of the bounds, advantages that differ from token to token."""
    assert_equals_reference(make(options), reference(options))


def test_by_hand():
    """Two tokens with log-ratios 0.2 and 0.4: s = e^0.3; with A = 2 the loss is -2 e^0.3, and each token's share of the slope half of it."""
    batch = in_double(random_batch(0, num_groups=1, group_size=1, max_length=3)).select([0])
    shifts = torch.tensor([0.0, 0.2, 0.4]).double()[: batch.num_tokens]
    mask = torch.arange(batch.num_tokens) > 0
    batch = batch.with_loss_mask(mask).with_tokens(
        old_logprobs=batch["logprobs"] - shifts, advantages=torch.full_like(shifts, 2.0)
    )
    loss = Gspo(GspoConfig(clip_low=1.0, clip_high=9.0))
    mean = float(shifts[mask].mean())
    values, grad = value_and_gradient(loss, batch)

    assert values[mask].tolist() == pytest.approx([-2 * math.exp(mean)] * int(mask.sum()))
    assert grad[mask].tolist() == pytest.approx([-2 * math.exp(mean)] * int(mask.sum()))


def test_both_levels_agree_when_a_sequence_has_one_advantage():
    """The paper's remark: GSPO-token with equal advantages is GSPO, in value and gradient."""
    batch = in_double(random_batch(3, num_groups=5))
    batch = batch.with_tokens(advantages=torch.randn(batch.num_sequences).double()[batch.sequence_ids])
    sequence, token = (
        value_and_gradient(Gspo(GspoConfig(level=level, clip_low=0.3, clip_high=0.3)), batch) for level in ("sequence", "token")
    )

    assert torch.allclose(sequence[0], token[0])
    assert torch.allclose(sequence[1], token[1])


@pytest.mark.parametrize("aggregation", ["seq-mean-token-mean", "seq-mean-token-sum"])
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


@pytest.mark.parametrize(
    ("name", "aggregation", "bounds"),
    [
        ("gspo", "seq-mean-token-mean", (3e-4, 4e-4)),
        ("gspo_token", "seq-mean-token-mean", (3e-4, 4e-4)),
        ("luspo", "seq-mean-token-sum", (2e-3, 2.5e-3)),
    ],
)
def test_algorithms(tmp_path, name, aggregation, bounds):
    """Each paper's bounds, and a mean over sequences."""
    options = load(tmp_path, name)

    assert (options.loss.name, options.aggregation.name, options.kl.coef) == ("gspo", aggregation, 0.0)
    assert (options.loss.options.clip_low, options.loss.options.clip_high) == bounds
    assert options.loss.options.level == ("token" if name == "gspo_token" else "sequence")


@pytest.mark.parametrize("other", ["token-mean", "core-rl/token-mean", "prompt-mean", "{name: token-mean-local, sequences: 4}"])
def test_another_mean_is_refused(tmp_path, other):
    """verl ignores the setting; here it is an error that says what to take, however the aggregation is named."""
    with pytest.raises(
        ConfigError, match=r"algorithm\.aggregation: loss gspo is a mean over sequences, and [a-z-]+ is another"
    ):
        load(tmp_path, f"{{name: gspo, aggregation: {other}}}")


def test_a_mean_over_sequences_may_be_named_with_its_plugin(tmp_path):
    """`core-rl/seq-mean-token-mean` is what it is without the plugin's name."""
    options = load(tmp_path, "{name: gspo, aggregation: core-rl/seq-mean-token-mean}")

    assert options.aggregation.component.name == "seq-mean-token-mean"


def test_a_sequence_out_of_its_bounds_has_no_gradient_at_any_token():
    """Ratio e^0.5 pushed further up, or e^-0.5 further down: nothing; on its way back: every token its share."""
    batch = in_double(random_batch(1, num_groups=4))

    def grad(shift, advantage, level):
        far = {"old_logprobs": batch["logprobs"] - shift, "advantages": torch.full_like(batch["logprobs"], advantage)}
        return value_and_gradient(make({"level": level}), batch.with_tokens(**far))[1][batch.loss_mask]

    for level in ("sequence", "token"):
        assert not grad(0.5, 1.0, level).any()
        assert not grad(-0.5, -1.0, level).any()
        assert (grad(0.5, -1.0, level) > 0).all()
        assert (grad(-0.5, 1.0, level) < 0).all()
