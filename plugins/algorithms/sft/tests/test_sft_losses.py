"""Imitation losses: the loss of transformers' own labels, gradients by hand, limits, any split."""

from __future__ import annotations

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.data.batch import PackedBatch
from core_rl.numerics.aggregation import Aggregator
from core_rl.objective_extras import ExtraLoss
from core_rl.objective_offline import OfflineObjective
from core_rl.testing.batches import random_batch
from core_rl.testing.invariance import gradient
from core_rl.testing.losses import assert_equals_reference, assert_finite, random_split
from core_rl_sft.config import DftConfig, NllConfig
from core_rl_sft.dft import Dft
from core_rl_sft.nll import Nll

LOSSES = {"nll": Nll(NllConfig()), "dft": Dft(DftConfig())}
REFERENCES = {
    "nll": lambda row: [-x for x in row["logprobs"]],
    "dft": lambda row: [-float(x.detach().exp()) * x for x in row["logprobs"]],
}


@pytest.mark.parametrize("name", LOSSES)
def test_value_and_gradient_are_those_of_the_definition(name):
    """Token by token in float64; the weight of dft has no gradient."""
    assert_equals_reference(LOSSES[name], REFERENCES[name])


@pytest.mark.parametrize("name", LOSSES)
def test_extremes_are_finite(name):
    """Probability 1, an empty mask, one sequence."""
    assert_finite(LOSSES[name])


def test_values_by_hand():
    """A token of probability 1/2 costs log 2, and half of that in dft."""
    batch = random_batch(0)
    half = torch.full((batch.num_tokens,), 0.5).log()

    assert LOSSES["nll"](half, batch).values[0].item() == pytest.approx(0.6931, abs=1e-4)
    assert LOSSES["dft"](half, batch).values[0].item() == pytest.approx(0.3466, abs=1e-4)
    assert {name: round(float(a / b), 4) for name, (a, b) in LOSSES["nll"](half, batch).metrics.items()} == {
        "nll/mean": 0.6931,
        "nll/prob": 0.5,
    }


def test_the_loss_is_that_of_transformers_labels():
    """Token-mean over the tokens that are learnt, of a padded batch with -100 as transformers has it."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            vocab_size=20, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2
        )
        model = transformers.LlamaForCausalLM(config).eval()
    rows, learnt = [[3, 4, 5, 6, 7], [8, 9, 10]], [[False, False, True, True, True], [False, True, False]]
    padded = torch.tensor([rows[0], [*rows[1], 0, 0]])
    labels = torch.full((2, 5), -100)
    for index, flags in enumerate(learnt):
        for place, flag in enumerate(flags):
            labels[index, place] = rows[index][place] if flag else -100
    with torch.no_grad():
        theirs = model(input_ids=padded, labels=labels).loss
        table = model(input_ids=padded).logits.log_softmax(-1)
    ours = [0.0 if t == 0 else table[i, t - 1, token].item() for i, row in enumerate(rows) for t, token in enumerate(row)]
    batch = PackedBatch(
        tokens=torch.tensor([token for row in rows for token in row]),
        cu_seqlens=torch.tensor([0, 5, 8], dtype=torch.int32),
        positions=torch.tensor([0, 1, 2, 3, 4, 0, 1, 2], dtype=torch.int32),
        loss_mask=torch.tensor([flag for flags in learnt for flag in flags]),
        token_fields={"logprobs": torch.tensor(ours), "entropy": torch.zeros(8)},
    )

    assert gradient(OfflineObjective(LOSSES["nll"]), Aggregator("token-mean"), batch).loss == pytest.approx(
        theirs.item(), rel=1e-5
    )


def _pairs(seed):
    batch = random_batch(seed, num_groups=4, group_size=2)
    return batch.with_sequences(chosen=torch.arange(batch.num_sequences) % 2 == 0)


def test_of_pairs_the_preferred_completion_alone_is_imitated():
    """The rejected tokens are in no numerator and no denominator, unless `on` is all."""
    batch = _pairs(1)
    chosen = [s for s in range(batch.num_sequences) if batch["chosen"][s]]
    mean = Aggregator("token-mean")
    alone = gradient(OfflineObjective(LOSSES["nll"]), mean, batch.select(chosen))
    pairs = gradient(OfflineObjective(LOSSES["nll"]), mean, batch)
    both = gradient(OfflineObjective(Nll(NllConfig(on="all"))), mean, batch)

    assert pairs.loss == pytest.approx(alone.loss, rel=1e-6)
    assert pairs.metrics["nll/mean"] == pytest.approx(alone.loss, rel=1e-5)
    assert both.loss == pytest.approx(-batch["logprobs"][batch.loss_mask].mean().item(), rel=1e-5)
    assert not pairs.logprobs[~batch["chosen"][batch.sequence_ids]].any()


def test_as_an_extra_loss_it_has_its_own_denominator():
    """The main loss sees both sides, the extra one the preferred tokens, each with its own mean."""
    batch = _pairs(2)
    extra = ExtraLoss(name="nll", loss=LOSSES["nll"], weight=0.5)
    found = gradient(OfflineObjective(Nll(NllConfig(on="all")), [extra]), Aggregator("token-mean"), batch)
    chosen = batch.loss_mask & batch["chosen"][batch.sequence_ids]
    expected = -batch["logprobs"][batch.loss_mask].mean() - 0.5 * batch["logprobs"][chosen].mean()

    assert found.loss == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-mean", "prompt-mean"])
@given(seed=st.integers(0, 500), random=st.randoms(use_true_random=False), ranks=st.sampled_from([1, 2, 4]))
@settings(deadline=None, max_examples=15)
def test_any_split_has_the_same_loss_gradient_and_metrics(name, aggregation, seed, random, ranks):
    """With chosen and rejected sequences in it, on ranks that may have nothing."""
    batch = _pairs(seed)
    objective, weights = OfflineObjective(LOSSES[name]), Aggregator(aggregation)
    whole = gradient(objective, weights, batch)
    cut = gradient(objective, weights, batch, random_split(random, batch.num_sequences, ranks))

    assert torch.allclose(cut.logprobs, whole.logprobs, rtol=1e-5, atol=1e-9)
    assert cut.loss == pytest.approx(whole.loss, rel=1e-4, abs=1e-5)
    assert cut.metrics == pytest.approx(whole.metrics, rel=1e-4, abs=1e-5)


def test_a_log_probability_that_is_not_finite_is_refused():
    """Inside the mask loss and gradient are NaN, so that the engine skips the step; outside it nothing happens."""
    batch = random_batch(3)
    where = int(batch.loss_mask.nonzero()[0])
    broken = batch["logprobs"].clone()
    broken[where] = float("inf")
    outside = batch["logprobs"].where(batch.loss_mask, float("nan"))
    mean = Aggregator("token-mean")

    assert not torch.tensor(gradient(OfflineObjective(LOSSES["nll"]), mean, batch.with_tokens(logprobs=broken)).loss).isfinite()
    assert gradient(OfflineObjective(LOSSES["nll"]), mean, batch.with_tokens(logprobs=outside)).loss == pytest.approx(
        -batch["logprobs"][batch.loss_mask].mean().item(), rel=1e-5
    )
