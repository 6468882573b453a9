"""The divergence of whole distributions: value and gradient, the tails, and what its gradient comes to at the logits."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.config.algorithm import KlConfig
from core_rl.numerics.aggregation import Aggregator
from core_rl.objective import PolicyObjective
from core_rl.objective_extras import ExtraLoss
from core_rl.testing.batches import in_double, random_batch
from core_rl.testing.invariance import gradient
from core_rl_distill.config import GjsdConfig
from core_rl_distill.gjsd import Gjsd
from core_rl_grpo.config import PpoClipConfig
from core_rl_grpo.ppo_clip import PpoClip

from . import distill_reference as reference

BETAS = [0.0, 0.3, 0.5, 1.0]
TAILS = ["rest", "renormalise", "ignore"]


def distributions(seed, *, tokens, vocabulary=12, spread=2.0):
    """Log-probabilities of a student and a teacher, [tokens, vocabulary] float64."""
    random = torch.Generator().manual_seed(seed)
    both = spread * torch.randn(2, tokens, vocabulary, generator=random, dtype=torch.float64)
    return both.log_softmax(-1).unbind()


def with_ids(batch, seed=0, *, top_k=5):
    """A random batch whose tokens have `top_k` ids with both models' log-probabilities, 0 outside the mask as from an engine."""
    student, teacher = distributions(seed, tokens=batch.num_tokens)
    ids = teacher.topk(top_k).indices
    mask = batch.loss_mask[:, None]
    return batch.with_tokens(
        gather_ids=ids,
        teacher_gathered=teacher.gather(1, ids).where(mask, 0.0).float(),
        gathered_logprobs=student.gather(1, ids).where(mask, 0.0).float(),
    )


def loss_of(student, teacher, **options):
    """Values of a batch of one sequence whose first token is outside the mask."""
    batch = random_batch(0, num_groups=1, group_size=1, max_length=2)
    mask = torch.ones(len(student), dtype=torch.bool)
    batch = batch.with_loss_mask(mask).with_tokens(gathered_logprobs=student, teacher_gathered=teacher)
    return Gjsd(GjsdConfig(**options))(torch.zeros(len(student)), batch)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize(
    "form",
    [{"top_k": 4, "tail": tail} for tail in TAILS]
    + [{"top_k": 4, "tail": "renormalise", "temperature": 0.7}, {"top_k": None, "temperature": 2.0}, {"top_k": None}],
    ids=str,
)
def test_value_and_gradient_are_the_papers(beta, form):
    """Against sums in Python and central differences, at several places."""
    student, teacher = distributions(1, tokens=5)
    if form["top_k"]:
        ids = teacher.topk(form["top_k"]).indices
        student, teacher = student.gather(1, ids), teacher.gather(1, ids)
    student = student.clone().requires_grad_()
    values = loss_of(student, teacher, beta=beta, **form).values
    values.sum().backward()
    plain = {"beta": beta, "tail": form.get("tail", "ignore"), "temperature": form.get("temperature", 1.0)}
    for place in range(5):
        own, other = student[place].tolist(), teacher[place].tolist()
        slopes = reference.slope(lambda logs, other=other: reference.gjsd(logs, other, **plain), own)

        assert values[place].item() == pytest.approx(reference.gjsd(own, other, **plain), rel=1e-9, abs=1e-12)
        assert student.grad[place].tolist() == pytest.approx(slopes, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize(("beta", "tail"), list(itertools.product(BETAS, TAILS)))
def test_as_many_ids_as_the_vocabulary_are_the_whole_sum(beta, tail):
    """Whatever the tail, in any order of the ids, and the gradient at the logits too."""
    gradients = []
    for top_k in (None, 12):
        logits = distributions(2, tokens=4)[0].clone().requires_grad_()
        teacher = distributions(3, tokens=4)[1]
        student = logits.log_softmax(-1)
        order = torch.randperm(12, generator=torch.Generator().manual_seed(1)) if top_k else torch.arange(12)
        values = loss_of(student[:, order], teacher[:, order], beta=beta, top_k=top_k, tail=tail).values
        values.sum().backward()
        gradients.append((values.detach(), logits.grad))

    assert torch.allclose(gradients[0][0], gradients[1][0], atol=1e-9)
    assert torch.allclose(gradients[0][1], gradients[1][1], atol=1e-9)


def test_the_forward_kl_pulls_logits_from_student_to_teacher():
    """d KL(T || S) / d logits = S - T: it depends on the teacher, and vanishes where both agree."""
    logits = distributions(4, tokens=3)[0].clone().requires_grad_()
    for teacher in (distributions(5, tokens=3)[1], distributions(6, tokens=3)[1], logits.detach().log_softmax(-1)):
        student = logits.log_softmax(-1)
        (grad,) = torch.autograd.grad(loss_of(student, teacher, beta=0.0).values.sum(), logits)

        assert torch.allclose(grad, student.exp() - teacher.exp(), atol=1e-12)


@pytest.mark.parametrize(("beta", "top_k", "tail"), [*itertools.product(BETAS, [3], TAILS), *((b, 1, "rest") for b in BETAS)])
def test_the_gradient_depends_on_the_teacher(beta, top_k, tail):
    """Another teacher, another gradient at the logits: for every beta and tail, and for a single id."""
    logits = distributions(7, tokens=1)[0].clone().requires_grad_()
    ids = torch.arange(top_k)[None]
    found = []
    for seed in (8, 9):
        student, teacher = logits.log_softmax(-1).gather(1, ids), distributions(seed, tokens=1)[1].gather(1, ids)
        values = loss_of(student, teacher, beta=beta, top_k=top_k, tail=tail).values
        found += torch.autograd.grad(values.sum(), logits)

    assert (found[0] - found[1]).abs().max() > 0.01 * found[0].abs().max() > 0


def test_one_id_with_the_rest_is_the_kl_of_two_coins():
    """By hand: T = 0.75, S = 0.5, forward KL = 0.75 log 1.5 + 0.25 log 0.5."""
    student, teacher = torch.tensor([[0.5]]).log(), torch.tensor([[0.75]]).log()
    values = loss_of(student, teacher, beta=0.0, top_k=1).values

    assert values.item() == pytest.approx(0.75 * math.log(1.5) + 0.25 * math.log(0.5), rel=1e-6)


def test_the_ends_of_beta_are_limits_and_its_sides_mirror():
    """JSD / beta tends to KL(T || S), JSD / (1 - beta) to KL(S || T), and beta with S and T is 1 - beta with T and S."""
    student, teacher = distributions(10, tokens=6)
    near = [loss_of(student, teacher, beta=beta).values for beta in (1e-6, 1 - 1e-6)]
    ends = [loss_of(student, teacher, beta=beta).values for beta in (0.0, 1.0)]

    assert torch.allclose(near[0] / 1e-6, ends[0], rtol=1e-3)
    assert torch.allclose(near[1] / 1e-6, ends[1], rtol=1e-3)
    assert torch.allclose(loss_of(student, teacher, beta=0.3).values, loss_of(teacher, student, beta=0.7).values)


@given(seed=st.integers(0, 1000), beta=st.sampled_from(BETAS), top_k=st.integers(1, 12))
@settings(deadline=None, max_examples=40)
def test_with_the_rest_it_lies_between_zero_and_the_whole(seed, beta, top_k):
    """Putting outcomes together never makes distributions easier to tell apart."""
    student, teacher = distributions(seed, tokens=4)
    whole = loss_of(student, teacher, beta=beta).values
    ids = teacher.topk(top_k).indices
    part = loss_of(student.gather(1, ids), teacher.gather(1, ids), beta=beta, top_k=top_k).values

    assert (part >= -1e-9).all()
    assert (part <= whole + 1e-9).all()


@pytest.mark.parametrize(("beta", "tail"), list(itertools.product(BETAS, TAILS)))
def test_extreme_models_leave_neither_nan_nor_infinity(beta, tail):
    """Tokens that one model gives all and the other next to nothing, or nothing at all; probability 1 on both sides."""
    rows = [
        ([0.0, -50.0], [-50.0, 0.0]),
        ([-50.0, 0.0], [0.0, -50.0]),
        ([0.0, -90.0], [0.0, -math.inf]),
        ([0.0, -9.0], [0.0, -9.0]),
    ]
    student = torch.tensor([row[0] for row in rows]).requires_grad_()
    values = loss_of(student, torch.tensor([row[1] for row in rows]), beta=beta, top_k=2, tail=tail).values
    values.sum().backward()

    assert values.isfinite().all()
    assert student.grad.isfinite().all()
    assert values[3].abs() < 1e-5


@pytest.mark.parametrize("name", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "prompt-mean"])
@pytest.mark.parametrize("place", ["loss", "extra"])
@given(data=st.data(), seed=st.integers(0, 300), tail=st.sampled_from(TAILS))
@settings(deadline=None, max_examples=15)
def test_any_split_and_order_has_the_same_gradient(name, place, data, seed, tail):
    """Micro-batches of two ranks against one: loss, gradient by the gathered log-probabilities, metrics."""
    batch = in_double(with_ids(random_batch(seed), seed))
    loss = Gjsd(GjsdConfig(top_k=5, tail=tail))
    if place == "loss":
        objective = PolicyObjective(loss, kl=KlConfig())
    else:
        objective = PolicyObjective(
            PpoClip(PpoClipConfig()), kl=KlConfig(), extras=[ExtraLoss(name="gjsd", loss=loss, weight=0.5)]
        )
    order = data.draw(st.permutations(range(batch.num_sequences)))
    cut = data.draw(st.integers(0, len(order)))
    size = data.draw(st.integers(1, 3))
    ranks = [[part[i : i + size] for i in range(0, len(part), size)] for part in (order[:cut], order[cut:])]
    aggregation = Aggregator(name)
    whole, split = gradient(objective, aggregation, batch), gradient(objective, aggregation, batch, ranks)

    assert torch.allclose(split.others["gathered_logprobs"], whole.others["gathered_logprobs"], rtol=1e-6, atol=1e-9)
    assert (whole.others["gathered_logprobs"][~batch.loss_mask] == 0).all()
    assert split.loss == pytest.approx(whole.loss, rel=1e-4, abs=1e-6)
    assert split.metrics == pytest.approx(whole.metrics, rel=1e-4, abs=1e-5)


def test_the_metrics_say_how_much_the_ids_hold():
    """Means over the mask of the sums of probabilities; without top_k there is nothing to say."""
    batch = in_double(with_ids(random_batch(3), top_k=2))
    output = Gjsd(GjsdConfig(top_k=2))(batch["logprobs"], batch)
    expected = batch["teacher_gathered"][batch.loss_mask].exp().sum() / batch.loss_mask.sum()
    total, count = output.metrics["distill/teacher_mass"]

    assert float(total / count) == pytest.approx(float(expected))
    assert Gjsd(GjsdConfig())(batch["logprobs"], batch).metrics == {}


def test_an_empty_mask_has_no_gradient():
    """Nothing to learn from is no error and moves nothing."""
    batch = with_ids(random_batch(1))
    batch = batch.with_loss_mask(torch.zeros_like(batch.loss_mask))
    found = gradient(PolicyObjective(Gjsd(GjsdConfig(top_k=5)), kl=KlConfig()), Aggregator("token-mean"), batch)

    assert found.loss == 0.0
    assert found.others["gathered_logprobs"].abs().max() == 0
