"""Losses of pairs: every variant by value and gradient against its formula, limits, and invariance."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.numerics.aggregation import Aggregator
from core_rl.objective_offline import OfflineObjective
from core_rl.testing.invariance import gradient
from core_rl_preference.config import FORMULAS, CpoConfig, DpoConfig, OrpoConfig, SimpoConfig
from core_rl_preference.cpo import Cpo
from core_rl_preference.dpo import Dpo
from core_rl_preference.kinds import discopop
from core_rl_preference.orpo import Orpo
from core_rl_preference.simpo import Simpo

from .preference_batches import cut, pairs

PLAIN = [name for name in FORMULAS if not name.startswith("aot")]
SMOOTH = {"robust": 0.1, "exo_pair": 0.01}
MORE = {"bco_pair": {"bco_shift": False}}
CASES = [
    *(
        ("dpo", {"loss_type": name, "beta": 0.3, "label_smoothing": SMOOTH.get(name, 0.0), **MORE.get(name, {})})
        for name in PLAIN
    ),
    ("dpo", {"label_smoothing": 0.2}),
    ("dpo", {"length": "mean", "beta": 2.0}),
    ("dpo", {"loss_type": "ipo", "length": "mean"}),
    ("dpo", {"f_divergence": "forward_kl"}),
    ("dpo", {"f_divergence": "js"}),
    ("dpo", {"f_divergence": "alpha", "f_alpha": 0.3}),
    ("dpo", {"ld_alpha": 0.4}),
    ("dpo", {"ld_alpha": 0.4, "ld_reference": True, "length": "mean"}),
    ("dpo", {"loss_type": "ipo", "f_divergence": "alpha", "f_alpha": 2.0}),
    ("cpo", {}),
    ("cpo", {"loss_type": "hinge", "beta": 0.5}),
    ("simpo", {}),
    ("simpo", {"beta": 2.5, "gamma": 0.7, "label_smoothing": 0.1}),
    ("orpo", {"beta": 0.4}),
]
KINDS = {"dpo": (Dpo, DpoConfig), "cpo": (Cpo, CpoConfig), "simpo": (Simpo, SimpoConfig), "orpo": (Orpo, OrpoConfig)}
MEAN = Aggregator("prompt-mean")


def make(case):
    loss, config = KINDS[case[0]]
    return loss(config(**case[1]))


def log_sigmoid(x):
    return -torch.log1p(torch.exp(-x)) if x > -30 else x


def sigmoid(x):
    return 1 / (1 + torch.exp(-x))


def variant(name, a, b, c):
    """The table of the field, in plain terms."""
    d, e, beta = c.beta * (a - b), c.label_smoothing, c.beta
    table = {
        "sigmoid": lambda: -(1 - e) * log_sigmoid(d) - e * log_sigmoid(-d),
        "robust": lambda: (-(1 - e) * log_sigmoid(d) + e * log_sigmoid(-d)) / (1 - 2 * e),
        "hinge": lambda: torch.clamp(1 - d, min=0),
        "ipo": lambda: (d / beta - 1 / (2 * beta)) ** 2,
        "exo_pair": lambda: (
            sigmoid(d) * (torch.log(sigmoid(d)) - math.log(1 - e)) + sigmoid(-d) * (torch.log(sigmoid(-d)) - math.log(e))
        ),
        "nca_pair": lambda: -log_sigmoid(beta * a) - 0.5 * log_sigmoid(-beta * a) - 0.5 * log_sigmoid(-beta * b),
        "bco_pair": lambda: -log_sigmoid(beta * a) - log_sigmoid(-beta * b),
        "sppo_hard": lambda: (a - 0.5 / beta) ** 2 + (b + 0.5 / beta) ** 2,
        "apo_zero": lambda: 1 - sigmoid(beta * a) + sigmoid(beta * b),
        "apo_down": lambda: sigmoid(beta * a) + 1 - sigmoid(beta * (a - b)),
        "discopop": lambda: (1 - sigmoid(d / 0.05)) * -log_sigmoid(d) + sigmoid(d / 0.05) * torch.exp(-d),
    }
    return table[name]()


def divergence(u, c):
    if c.f_divergence == "forward_kl":
        return 1 - torch.exp(-u)
    if c.f_divergence == "js":
        return math.log(2) + log_sigmoid(u)
    if c.f_divergence == "alpha":
        return (torch.exp((c.f_alpha - 1) * u) - 1) / (c.f_alpha - 1)
    return u


def one_pair(case, sides):
    """The loss of a pair; `sides` has (policy tokens, reference tokens) of chosen and rejected."""
    name, options = case
    config = KINDS[name][1](**options)
    shortest = min(len(policy) for policy, _ in sides)

    def total(tokens, mean):
        return sum(tokens) / len(tokens) if mean else sum(tokens)

    if name in ("simpo", "orpo"):
        a, b = (total(policy, True) for policy, _ in sides)
        if name == "simpo":
            d, e = config.beta * (a - b) - config.margin, config.label_smoothing
            return -(1 - e) * log_sigmoid(d) - e * log_sigmoid(-d)
        odds = [x - torch.log(1 - torch.exp(x)) for x in (a, b)]
        return -config.beta * log_sigmoid(odds[0] - odds[1])
    if name == "cpo":
        return variant(config.loss_type, *(total(policy, False) for policy, _ in sides), config)
    ratios = []
    tail = 1.0 if config.ld_alpha is None else config.ld_alpha
    for policy, frozen in sides:
        own = [x if at < shortest else tail * x for at, x in enumerate(policy)]
        other = [x if at < shortest or not config.ld_reference else tail * x for at, x in enumerate(frozen)]
        ratios.append(divergence(total(own, config.length == "mean") - total(other, config.length == "mean"), config))
    return variant(config.loss_type, *ratios, config)


def reference(case, batch):
    """Mean over pairs, and its gradient by every log-probability."""
    leaves = batch["logprobs"].clone().requires_grad_()
    bounds = batch.cu_seqlens.tolist()
    losses = []
    for group in range(batch.num_sequences // 2):
        members = sorted((2 * group, 2 * group + 1), key=lambda s: not batch["chosen"][s])
        sides = []
        for s in members:
            where = [t for t in range(bounds[s], bounds[s + 1]) if batch.loss_mask[t]]
            sides.append(([leaves[t] for t in where], [batch["ref_logprobs"][t] for t in where]))
        losses.append(one_pair(case, sides))
    mean = sum(losses) / len(losses)
    mean.backward()
    return mean.item(), leaves.grad


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_loss_and_gradient_are_those_of_the_formula(case, seed):
    """The mean over pairs, in float64."""
    batch = pairs(seed)
    found = gradient(OfflineObjective(make(case)), MEAN, batch)
    loss, slopes = reference(case, batch)

    assert found.loss == pytest.approx(loss, rel=1e-6)
    assert torch.allclose(found.logprobs, slopes, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("case", CASES, ids=str)
@given(seed=st.integers(0, 200), ranks=st.sampled_from([1, 2, 4]), random=st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=6)
def test_any_split_into_whole_pairs_has_the_same_gradient(case, seed, ranks, random):
    """Ranks, micro-batches and order."""
    batch = pairs(seed, 5)
    objective = OfflineObjective(make(case))
    whole = gradient(objective, MEAN, batch)
    parts = gradient(objective, MEAN, batch, cut(random, 5, ranks, [[2 * g, 2 * g + 1] for g in range(5)]))

    assert torch.allclose(parts.logprobs, whole.logprobs, rtol=1e-6, atol=1e-12)
    assert parts.loss == pytest.approx(whole.loss, rel=1e-6)
    assert parts.metrics == pytest.approx(whole.metrics, rel=1e-6)


def test_a_policy_that_is_the_reference_has_the_loss_log_2():
    """And every gradient points from rejected to chosen, with slope beta / 2."""
    batch = pairs(0)
    batch = batch.with_tokens(ref_logprobs=batch["logprobs"])
    found = gradient(OfflineObjective(make(("dpo", {"beta": 0.2}))), MEAN, batch)
    sign = torch.where(batch["chosen"], -1.0, 1.0)[batch.sequence_ids].where(batch.loss_mask, 0.0).double()

    assert found.loss == pytest.approx(math.log(2))
    assert torch.allclose(found.logprobs, sign * 0.1 / 4)
    assert (found.metrics["rewards/margin"], found.metrics["rewards/accuracy"]) == (0.0, 0.0)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("shift", [1e3, -1e3])
def test_extreme_margins_stay_finite(case, shift):
    """In float32: log-ratios of a thousand either way, in value and gradient."""
    batch = pairs(0)
    moved = batch["ref_logprobs"] + torch.where(batch["chosen"], shift, -shift)[batch.sequence_ids]
    policy = (batch["logprobs"] + torch.where(batch["chosen"], min(shift, 0.0), min(-shift, 0.0))[batch.sequence_ids]).clamp(
        max=-1e-3
    )
    batch = batch.with_tokens(ref_logprobs=moved.float(), logprobs=policy.float(), entropy=batch["entropy"].float())
    found = gradient(OfflineObjective(make(case)), MEAN, batch)

    assert math.isfinite(found.loss)
    assert found.logprobs.isfinite().all()


def test_certain_completions_have_finite_odds():
    """Probability 1 of every token, on one side and on both."""
    batch = pairs(0)
    certain = batch.with_tokens(logprobs=torch.zeros_like(batch["logprobs"]))
    one = batch.with_tokens(logprobs=batch["logprobs"].where(~batch["chosen"][batch.sequence_ids], 0.0))
    for each in (certain, one):
        found = gradient(OfflineObjective(make(("orpo", {}))), MEAN, each)
        assert math.isfinite(found.loss)
        assert found.logprobs.isfinite().all()


@pytest.mark.parametrize("kind", ["aot", "aot_unpaired"])
@given(seed=st.integers(0, 200), random=st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=10)
def test_aot_compares_quantiles_of_the_whole_batch(kind, seed, random):
    """Against sorting the whole batch at once; the split into micro-batches does not change the gradient."""
    batch = pairs(seed, 5)
    loss = Dpo(DpoConfig(loss_type=kind, beta=0.3, label_smoothing=0.1))
    objective = OfflineObjective(loss)
    prepared = objective.prepare(batch, MEAN, lambda part, _="current": part["logprobs"])
    whole = gradient(objective, MEAN, prepared)
    parts = gradient(objective, MEAN, prepared, cut(random, 5, 2, [[2 * g, 2 * g + 1] for g in range(5)]))
    leaves = batch["logprobs"].clone().requires_grad_()
    sums = torch.stack([part.sum() for part in leaves.where(batch.loss_mask, 0.0).split(batch.lengths.tolist())])
    refs = torch.stack([part.sum() for part in batch["ref_logprobs"].where(batch.loss_mask, 0.0).split(batch.lengths.tolist())])
    good, bad = ([2 * g + int(batch["chosen"][2 * g] != wanted) for g in range(5)] for wanted in (True, False))
    if kind == "aot":
        left, right = (sums[good] - sums[bad]).sort().values, (refs[good] - refs[bad]).sort().values
    else:
        left, right = (sums[good] - refs[good]).sort().values, (sums[bad] - refs[bad]).sort().values
    d = 0.3 * (left - right)
    expected = (-0.9 * torch.nn.functional.logsigmoid(d) - 0.1 * torch.nn.functional.logsigmoid(-d)).mean()
    expected.backward()

    assert whole.loss == pytest.approx(expected.item(), rel=1e-5)
    assert torch.allclose(whole.logprobs, leaves.grad, rtol=1e-4, atol=1e-8)
    assert torch.allclose(parts.logprobs, whole.logprobs, rtol=1e-6, atol=1e-12)


@given(seed=st.integers(0, 200), random=st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=15)
def test_bco_shifts_by_the_mean_of_the_whole_batch(seed, random):
    """By value and gradient against float64 loops; the mean is constant, and the split does not change it."""
    batch = pairs(seed, 5)
    objective = OfflineObjective(Dpo(DpoConfig(loss_type="bco_pair", beta=0.3)))
    prepared = objective.prepare(batch, MEAN, lambda part, _="current": part["logprobs"])
    whole = gradient(objective, MEAN, prepared)
    parts = gradient(objective, MEAN, prepared, cut(random, 5, 2, [[2 * g, 2 * g + 1] for g in range(5)]))
    leaves = batch["logprobs"].clone().requires_grad_()
    ratio = [
        sum(leaves[t] - batch["ref_logprobs"][t] for t in range(start, end) if batch.loss_mask[t])
        for start, end in pairwise(batch.cu_seqlens.tolist())
    ]
    shift = sum(float(r.detach()) for r in ratio) / 10
    signed = [0.3 * (r - shift) * (1 if good else -1) for r, good in zip(ratio, batch["chosen"].tolist(), strict=True)]
    expected = sum(-log_sigmoid(x) for x in signed) / 5
    expected.backward()

    assert whole.loss == pytest.approx(expected.item(), rel=1e-5)
    assert torch.allclose(whole.logprobs, leaves.grad, rtol=1e-4, atol=1e-8)
    assert torch.allclose(parts.logprobs, whole.logprobs, rtol=1e-6, atol=1e-12)


def test_a_far_log_ratio_still_has_a_gradient():
    """Under the forward KL a chosen completion far below the reference is pulled up, not given up: exp goes on along its tangent."""
    batch = pairs(0)
    chosen = batch["chosen"][batch.sequence_ids] & batch.loss_mask
    batch = batch.with_tokens(ref_logprobs=batch["ref_logprobs"] + 60.0 * chosen)
    found = gradient(
        OfflineObjective(make(("dpo", {"f_divergence": "forward_kl", "loss_type": "hinge", "beta": 1e-9}))), MEAN, batch
    )

    assert found.logprobs.isfinite().all()
    assert (found.logprobs[chosen] < 0).all()


def test_metrics_are_means_over_pairs():
    """Rewards, margin, accuracy and log-probabilities of a pair by hand."""
    batch = pairs(3, 1)
    found = gradient(OfflineObjective(make(("dpo", {"beta": 0.5}))), MEAN, batch).metrics
    sums = {
        (name, bool(good)): float(part[mask].sum())
        for name in ("logprobs", "ref_logprobs")
        for part, mask, good in zip(
            batch[name].split(batch.lengths.tolist()),
            batch.loss_mask.split(batch.lengths.tolist()),
            batch["chosen"],
            strict=True,
        )
    }
    chosen, rejected = (0.5 * (sums["logprobs", good] - sums["ref_logprobs", good]) for good in (True, False))

    assert {name: value for name, value in found.items() if name.startswith(("rewards", "logps"))} == pytest.approx(
        {
            "rewards/chosen": chosen,
            "rewards/rejected": rejected,
            "rewards/margin": chosen - rejected,
            "rewards/accuracy": float(chosen > rejected),
            "logps/chosen": sums["logprobs", True],
            "logps/rejected": sums["logprobs", False],
        }
    )


def test_sums_that_were_known_before_stand_for_the_reference():
    """`ref_sequence_logprobs` gives what the reference's tokens give, summed and averaged."""
    batch = pairs(1)
    known = torch.stack(
        [part.sum() for part in batch["ref_logprobs"].where(batch.loss_mask, 0.0).split(batch.lengths.tolist())]
    )
    fields = {name: value for name, value in batch.token_fields.items() if name != "ref_logprobs"}
    other = type(batch)(
        tokens=batch.tokens,
        cu_seqlens=batch.cu_seqlens,
        positions=batch.positions,
        loss_mask=batch.loss_mask,
        token_fields=fields,
        sequence_fields={**batch.sequence_fields, "ref_sequence_logprobs": known},
    )
    for length in ("sum", "mean"):
        objective = OfflineObjective(make(("dpo", {"length": length})))
        assert gradient(objective, MEAN, other).loss == pytest.approx(gradient(objective, MEAN, batch).loss, rel=1e-6)


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (DpoConfig, {"loss_type": "ipo", "label_smoothing": 0.1}, "ipo does not read label_smoothing"),
        (DpoConfig, {"loss_type": "exo_pair"}, "exo_pair needs a label_smoothing above 0"),
        (DpoConfig, {"f_divergence": "alpha", "f_alpha": 1.0}, "at 1 the alpha divergence is the reverse KL"),
        (DpoConfig, {"loss_type": "nca_pair", "f_divergence": "js"}, "nca_pair does not compare differences alone"),
        (DpoConfig, {"loss_type": "aot", "f_divergence": "js"}, "aot does not compare differences alone"),
        (DpoConfig, {"ld_reference": True}, "nothing is weighted without ld_alpha"),
        (DpoConfig, {"beta": 0.0}, "beta"),
        (CpoConfig, {"loss_type": "hinge", "label_smoothing": 0.1}, "hinge does not read label_smoothing"),
    ],
)
def test_options_that_make_no_sense(config, options, message):
    """Told in one line."""
    with pytest.raises(ValueError, match=message):
        config(**options)


def test_discopop_leads_away_from_the_reference():
    """With beta and tau 0.05 there is a shallow minimum of 0.7859 at a difference of -2.3714, and the slope at 0 leads to it."""
    a = torch.linspace(-4, 0, 400_001, dtype=torch.float64).requires_grad_()
    values = discopop(a, torch.zeros(()), DpoConfig(loss_type="discopop", beta=0.05))
    (slopes,) = torch.autograd.grad(values.sum(), a)

    assert a[values.argmin()].item() == pytest.approx(-2.3714, abs=1e-4)
    assert values.min().item() == pytest.approx(0.785924, abs=1e-6)
    assert slopes[-1] > 0


def test_simpos_margin_has_two_forms():
    """gamma itself, and gamma over beta as the authors' code has it."""
    assert (SimpoConfig().margin, SimpoConfig(gamma=1.6).margin, SimpoConfig(beta=2.5, gamma_beta_ratio=0.4).margin) == (
        1.0,
        1.6,
        1.0,
    )
