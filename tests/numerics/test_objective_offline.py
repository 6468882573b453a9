"""The offline objective: what is prepared for whom and in which order, masks, values that are not finite."""

from __future__ import annotations

import pytest
import torch

from core_rl.numerics.aggregation import Aggregator
from core_rl.objective_extras import ExtraLoss
from core_rl.objective_offline import OfflineObjective
from core_rl.roles.train import LossOutput, PolicyOutputs
from core_rl.testing.batches import random_batch
from core_rl.testing.invariance import gradient


class Plain:
    """l = -log pi, and a metric."""

    def __call__(self, logprobs, batch):
        return LossOutput(values=-logprobs, metrics={"plain/count": (batch.loss_mask.sum(), torch.tensor(1))})


class Narrow(Plain):
    """Speaks of the first token of the mask in each sequence alone."""

    def mask(self, batch):
        first = torch.zeros_like(batch.loss_mask)
        for start, end in zip(batch.cu_seqlens[:-1].tolist(), batch.cu_seqlens[1:].tolist(), strict=True):
            inside = batch.loss_mask[start:end].nonzero()[:, 0]
            first[start + inside[:1]] = True
        return first


class Prepared(Plain):
    """l = c · -log pi, with c the mean reference log-probability of the whole batch."""

    unit = "group"

    def prepare(self, batch, forward):
        reference = forward(batch, "reference")
        assert not reference.requires_grad
        mean = reference[batch.loss_mask].mean()
        return batch.with_sequences(scale=mean.expand(batch.num_sequences))

    def __call__(self, logprobs, batch):
        return LossOutput(values=-logprobs * batch["scale"][0], metrics={})


def test_prepare_sees_the_whole_batch_and_any_split_keeps_it():
    """`forward` gives either policy; what it says is constant in every micro-batch."""
    batch = random_batch(4)
    asked = []

    def forward(whole, weights="current"):
        asked.append((whole.num_sequences, weights))
        return whole["ref_logprobs"]

    objective, mean = OfflineObjective(Prepared()), Aggregator("token-mean")
    ready = objective.prepare(batch, mean, forward)
    whole = gradient(objective, mean, ready)
    cut = gradient(objective, mean, ready, [[[0], list(range(1, batch.num_sequences))]])
    mask = batch.loss_mask
    expected = -batch["ref_logprobs"][mask].mean() * batch["logprobs"][mask].mean()

    assert asked == [(batch.num_sequences, "reference")]
    assert objective.unit == "group"
    assert whole.loss == pytest.approx(expected.item(), rel=1e-5)
    assert torch.allclose(cut.logprobs, whole.logprobs)


def test_an_extra_loss_is_prepared_too():
    """Beside a main loss that needs nothing, with its own weight."""
    batch = random_batch(4)
    objective = OfflineObjective(Plain(), [ExtraLoss(name="prepared", loss=Prepared(), weight=0.5)])
    mean = Aggregator("token-mean")
    ready = objective.prepare(batch, mean, lambda whole, weights="current": whole["ref_logprobs"])
    found = gradient(objective, mean, ready)
    plain = -batch["logprobs"][batch.loss_mask].mean()
    expected = plain * (1 + 0.5 * batch["ref_logprobs"][batch.loss_mask].mean())

    assert found.loss == pytest.approx(expected.item(), rel=1e-5)


def test_a_mask_of_the_main_loss_narrows_the_denominator():
    """The mean is over the tokens that it speaks of."""
    batch = random_batch(5)
    first = Narrow().mask(batch)
    found = gradient(OfflineObjective(Narrow()), Aggregator("token-mean"), batch)

    assert found.loss == pytest.approx(-batch["logprobs"][first].mean().item(), rel=1e-5)
    assert found.metrics["plain/count"] == float(first.sum())
    assert not found.logprobs[~first].any()


@pytest.mark.parametrize("what", ["logprobs", "values"])
def test_what_is_not_finite_is_counted(what):
    """In the mask, of log-probabilities or of values; the entropy is a metric of a policy alone."""
    batch = random_batch(6)
    where = int(batch.loss_mask.nonzero()[0])
    fields = {"logprobs": batch["logprobs"].clone(), "values": batch["new_values"].clone() if what == "values" else None}
    fields[what][where] = float("inf")
    output = OfflineObjective(Plain())(PolicyOutputs(entropy=batch["entropy"], **fields), batch)
    total, count = output.metrics["nan_tokens"]

    assert (float(total), int(count)) == (1.0, int(batch.loss_mask.sum()))
    assert ("entropy/mean" in output.metrics) == (what == "logprobs")
    assert not output.values[where].isfinite()
