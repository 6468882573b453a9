"""`tis`, `mis`, `icepop`, `seq_mask_tis`, `outlier_veto`; and their edges, with those of `opsm`."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from core_rl.data.batch import PackedBatch
from core_rl.testing.batches import in_double, random_batch
from core_rl_rejections.config import IcepopConfig, MisConfig, OpsmConfig, OutlierVetoConfig, SeqMaskTisConfig, TisConfig
from core_rl_rejections.opsm import Opsm
from core_rl_rejections.outlier_veto import OutlierVeto
from core_rl_rejections.weights import Icepop, Mis, SeqMaskTis, Tis


def rhos(batch, level):
    """[tokens in the mask] by loops over the sequences."""
    found = []
    bounds = batch.cu_seqlens.tolist()
    for start, end in pairwise(bounds):
        where = [t for t in range(start, end) if batch.loss_mask[t]]
        d = [(batch["old_logprobs"][t] - batch["rollout_logprobs"][t]).item() for t in where]
        whole = {"sequence": sum(d), "geometric": sum(d) / max(1, len(d))}
        found += [math.exp(x if level == "token" else whole[level]) for x in d]
    return found


@pytest.mark.parametrize("level", ["token", "sequence", "geometric"])
@pytest.mark.parametrize("seed", range(3))
def test_weights_are_those_of_the_definition(level, seed):
    """Truncated, and masked; nothing leaves the denominators."""
    batch = in_double(random_batch(seed, num_groups=5))
    tis = Tis(TisConfig(level=level, lower=0.7, upper=1.4))(batch)
    mis = Mis(MisConfig(level=level, lower=0.7, upper=1.4))(batch)
    rho = rhos(batch, level)

    assert tis.weights[batch.loss_mask].tolist() == pytest.approx([min(max(x, 0.7), 1.4) for x in rho])
    assert mis.weights[batch.loss_mask].tolist() == pytest.approx([x if 0.7 <= x <= 1.4 else 0.0 for x in rho])
    assert tis.keep.all()
    assert mis.keep.all()


def test_defaults_are_those_of_the_field():
    """TIS 2 per token; TRL's sequence mask 3 without a lower bound; IcePop 0.5 to 5."""
    assert (TisConfig().level, TisConfig().upper, TisConfig().lower) == ("token", 2.0, None)
    assert (MisConfig().level, MisConfig().upper, MisConfig().lower) == ("sequence", 3.0, None)
    assert (IcepopConfig().level, IcepopConfig().upper, IcepopConfig().lower) == ("token", 5.0, 0.5)


def test_icepop_is_mis_by_token():
    """Another name, other defaults."""
    batch = random_batch(2)
    same = MisConfig(level="token", lower=0.5, upper=5.0)

    assert torch.equal(Icepop(IcepopConfig())(batch).weights, Mis(same)(batch).weights)
    assert "icepop/ess" in Icepop(IcepopConfig())(batch).metrics


def test_batch_normalised_weights_have_mean_one():
    """Over the tokens in the mask."""
    batch = random_batch(2)
    weights = Tis(TisConfig(batch_normalise=True))(batch).weights

    assert weights[batch.loss_mask].mean().item() == pytest.approx(1.0, rel=1e-5)


def test_seq_mask_tis_keeps_near_sequences_with_their_own_weights():
    """Geometric ratio inside: tokens weigh rho; outside: the sequence leaves."""
    batch = in_double(random_batch(3, num_groups=6))
    verdict = SeqMaskTis(SeqMaskTisConfig(lower=0.8, upper=1.25))(batch)
    inside = [0.8 <= x <= 1.25 for x in rhos(batch, "geometric")]

    assert verdict.keep[batch.loss_mask].tolist() == inside
    assert 0 < sum(inside) < len(inside)
    assert verdict.weights[batch.loss_mask].tolist() == pytest.approx(rhos(batch, "token"))


def test_one_outlier_takes_its_sequence_out():
    """And no other."""
    batch = random_batch(4, num_groups=4)
    token = int(batch.loss_mask.nonzero()[0])
    sequence = int(batch.sequence_ids[token])
    far = batch["old_logprobs"].clone()
    far[token] = batch["rollout_logprobs"][token] - 12.0
    near = batch.with_tokens(old_logprobs=far)
    keep = OutlierVeto(OutlierVetoConfig())(near).keep

    assert torch.equal(keep, batch.sequence_ids != sequence)
    assert OutlierVeto(OutlierVetoConfig())(batch).keep.all()


def test_what_weights_say_of_themselves():
    """Weights 1, 3 and 0: mean 4/3, effective sample size mean^2 / mean of squares, a third at 0. An empty mask says nothing."""
    mask = torch.tensor([False, True, True, True])
    sampled = torch.full((4,), -9.0)
    batch = PackedBatch(
        tokens=torch.arange(4),
        cu_seqlens=torch.tensor([0, 4], dtype=torch.int32),
        positions=torch.arange(4, dtype=torch.int32),
        loss_mask=mask,
        token_fields={
            "rollout_logprobs": sampled,
            "old_logprobs": sampled + torch.tensor([0.0, 1.0, 3.0, 9.0]).log().nan_to_num(neginf=0.0),
        },
    )
    metrics = Icepop(IcepopConfig())(batch).metrics

    assert metrics == pytest.approx(
        {"icepop/weight_mean": 4 / 3, "icepop/weight_max": 3.0, "icepop/ess": (16 / 9) / (10 / 3), "icepop/zero_frac": 1 / 3}
    )
    assert Icepop(IcepopConfig())(batch.with_loss_mask(torch.zeros_like(mask))).metrics == {}


@pytest.mark.parametrize(
    "rejection",
    [Tis(TisConfig()), Mis(MisConfig()), SeqMaskTis(SeqMaskTisConfig()), OutlierVeto(OutlierVetoConfig()), Opsm(OpsmConfig())],
)
def test_edges(rejection):
    """Log-ratios of 1e4 either way, an empty mask: finite weights, no error."""
    batch = random_batch(1)
    for shift in (1e4, -1e4):
        verdict = rejection(batch.with_tokens(old_logprobs=batch["rollout_logprobs"] + shift))
        assert verdict.weights is None or verdict.weights.isfinite().all()
        assert all(math.isfinite(value) for value in verdict.metrics.values())

    assert rejection(batch.with_loss_mask(torch.zeros_like(batch.loss_mask))).keep is not None
