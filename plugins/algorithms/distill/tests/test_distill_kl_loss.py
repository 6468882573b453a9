"""The KL to the teacher from the sampled token: value, gradient, and what the gradient is in expectation."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.builtin.config import KlEstimatorConfig
from core_rl.component import Component
from core_rl.config.algorithm import KlConfig
from core_rl.config.selection import Selection
from core_rl.numerics.aggregation import Aggregator
from core_rl.objective import PolicyObjective
from core_rl.testing.batches import in_double, random_batch
from core_rl.testing.invariance import gradient
from core_rl_distill.config import DistillKlConfig
from core_rl_distill.kl_loss import DistillKl

from . import distill_reference as reference

NAMES = ["abs", "k2", "k3", "k1+", "k3+"]


def loss(name, *, unbiased=False, value_bound=None):
    """As a run file makes it."""
    target = f"core_rl.builtin.kl_estimators:{name.replace('+', '_plus').replace('abs', 'abs_')}"
    component = Component(name=name, target=target, config="core_rl.builtin.config:KlEstimatorConfig")
    options = KlEstimatorConfig(value_bound=value_bound)
    estimator = Selection(kind="kl_estimator", name=name, options=options, component=component)
    return DistillKl(DistillKlConfig(estimator=estimator, unbiased=unbiased))


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_value_and_gradient_are_the_estimators(name, unbiased):
    """Token by token in Python; the ratio has a gradient of its own."""
    batch = in_double(random_batch(3))
    logprobs = batch["logprobs"].clone().requires_grad_()
    values = loss(name, unbiased=unbiased)(logprobs, batch).values
    values.sum().backward()
    for t in batch.loss_mask.nonzero()[:, 0].tolist():
        value, slope = reference.estimate(name, float(logprobs[t].detach() - batch["teacher_logprobs"][t]))
        if unbiased:
            ratio = float((logprobs[t].detach() - batch["old_logprobs"][t]).exp())
            value, slope = ratio * value, ratio * (slope + value)

        assert values[t].item() == pytest.approx(value, rel=1e-9, abs=1e-12)
        assert logprobs.grad[t].item() == pytest.approx(slope, rel=1e-9, abs=1e-12)


def every_token(seed, vocabulary=7):
    """One place with every token sampled once: logits of the student, the teacher's log-probabilities, and the true gradient."""
    random = torch.Generator().manual_seed(seed)
    logits, other = torch.randn(2, vocabulary, generator=random, dtype=torch.float64).unbind()
    logits.requires_grad_()
    teacher = other.log_softmax(-1)
    student = logits.log_softmax(-1)
    (true,) = torch.autograd.grad((student.exp() * (student - teacher)).sum(), logits)
    return logits, teacher, true


@pytest.mark.parametrize(("name", "unbiased"), [("k2", False), ("k1+", False), ("k3+", False), ("k1", True), ("k3", True)])
def test_in_expectation_the_gradient_is_that_of_the_kl(name, unbiased):
    """On-policy: sum over all tokens of pi(v) times the gradient of the estimate; for another teacher it is another."""
    truths = []
    for seed in (1, 2):
        logits, teacher, true = every_token(seed)
        logprobs = logits.log_softmax(-1)
        batch = random_batch(0).with_loss_mask(torch.ones(7, dtype=torch.bool))
        batch = batch.with_tokens(teacher_logprobs=teacher, old_logprobs=logprobs.detach())
        values = loss(name, unbiased=unbiased)(logprobs, batch).values
        (found,) = torch.autograd.grad((logprobs.exp().detach() * values).sum(), logits)
        truths.append(true)

        assert torch.allclose(found, true, atol=1e-12)
    assert (truths[0] - truths[1]).abs().max() > 1e-3


def test_plain_k3_is_the_other_kl():
    """On-policy its gradient is that of KL(teacher || student), S - T at the logits."""
    logits, teacher, _ = every_token(3)
    logprobs = logits.log_softmax(-1)
    batch = random_batch(0).with_loss_mask(torch.ones(7, dtype=torch.bool)).with_tokens(teacher_logprobs=teacher)
    (found,) = torch.autograd.grad((logprobs.exp().detach() * loss("k3")(logprobs, batch).values).sum(), logits)

    assert torch.allclose(found, logprobs.detach().exp() - teacher.exp(), atol=1e-12)


def test_plain_k1_is_refused_because_no_teacher_is_in_its_gradient():
    """The message has the mends; with the ratio it may be."""
    with pytest.raises(ValueError, match="knows nothing of the teacher: take k2, k3"):
        DistillKlConfig(estimator="k1")

    assert DistillKlConfig(estimator="k1", unbiased=True).estimator.name == "k1"


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_extreme_log_ratios_are_finite(name, unbiased):
    """±50 and a token both are sure of, in float32; a bound of the value holds."""
    batch = random_batch(0)
    batch = batch.with_loss_mask(torch.ones(3, dtype=torch.bool)).with_tokens(
        teacher_logprobs=torch.tensor([-50.0, 0.0, 0.0]), old_logprobs=torch.tensor([-50.0, 0.0, 0.0])
    )
    logprobs = torch.tensor([0.0, -50.0, 0.0]).requires_grad_()
    values = loss(name, unbiased=unbiased)(logprobs, batch).values
    values.sum().backward()

    assert values.isfinite().all()
    assert logprobs.grad.isfinite().all()
    assert values[2] == 0
    assert loss(name, value_bound=10.0)(logprobs, batch).values.abs().max() <= 10


@pytest.mark.parametrize("name", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "prompt-mean"])
@given(data=st.data(), seed=st.integers(0, 300), unbiased=st.booleans())
@settings(deadline=None, max_examples=15)
def test_any_split_has_the_same_gradient(name, data, seed, unbiased):
    """Sequences in any order over two ranks, one by one or in pairs."""
    batch = random_batch(seed)
    objective, aggregation = PolicyObjective(loss("k3", unbiased=unbiased), kl=KlConfig()), Aggregator(name)
    order = data.draw(st.permutations(range(batch.num_sequences)))
    cut, size = data.draw(st.integers(0, len(order))), data.draw(st.integers(1, 2))
    ranks = [[part[i : i + size] for i in range(0, len(part), size)] for part in (order[:cut], order[cut:])]
    whole, split = gradient(objective, aggregation, batch), gradient(objective, aggregation, batch, ranks)

    assert torch.allclose(split.logprobs, whole.logprobs, rtol=1e-5, atol=1e-8)
    assert split.loss == pytest.approx(whole.loss, rel=1e-4, abs=1e-6)
