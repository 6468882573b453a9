"""How a token is drawn: by value, by its distribution, and by seed and place alone."""

from __future__ import annotations

import math
from types import SimpleNamespace

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from core_rl_sglang._draw import draw, restrict, sample, uniforms, with_seeds

ALL = 1 << 30


def reference(row, top_k, top_p, min_p):
    """In plain Python: the k likeliest, then top-p of those, then min-p."""
    if top_k == 1:
        return list(row)
    order = sorted(range(len(row)), key=lambda token: -row[token])
    kept = order[: min(top_k, len(row))]
    total = math.fsum(row[token] for token in kept)
    sums, nucleus = 0.0, []
    for token in kept:
        if sums >= top_p:
            break
        nucleus.append(token)
        sums += row[token] / total
    nucleus = [token for token in nucleus if row[token] >= min_p * row[nucleus[0]]]
    total = math.fsum(row[token] for token in nucleus)
    return [row[token] / total if token in nucleus else 0.0 for token in range(len(row))]


@given(
    st.lists(st.floats(-4, 4), min_size=2, max_size=12, unique=True),
    st.one_of(st.just(ALL), st.integers(1, 14)),
    st.sampled_from([1.0, 0.9, 0.5, 0.1]),
    st.sampled_from([0.0, 0.3]),
)
def test_what_is_left_to_draw_from(logits, top_k, top_p, min_p):
    """Each row as the reference has it, whatever the row beside it asks for."""
    rows = torch.tensor([logits, logits[::-1]], dtype=torch.float64).softmax(-1)
    before = rows.tolist()
    restrict(rows, torch.tensor([top_k, ALL]), torch.tensor([top_p, 1.0]).double(), torch.tensor([min_p, 0.0]).double())

    assert rows[0].tolist() == pytest.approx(reference(before[0], top_k, top_p, min_p), abs=1e-12)
    assert rows[1].tolist() == pytest.approx(before[1], abs=1e-12)


def test_tokens_come_as_often_as_they_are_likely():
    """40,000 places of one seed; none of a token that was left out."""
    probs = torch.tensor([0.5, 0.0, 0.3, 0.2]).repeat(40_000, 1)
    drawn = draw(probs, uniforms(torch.full((40_000,), 7), torch.arange(40_000)), greedy=torch.zeros(40_000, dtype=torch.bool))
    shares = torch.bincount(drawn, minlength=4) / 40_000

    assert shares.tolist() == pytest.approx([0.5, 0.0, 0.3, 0.2], abs=0.01)


def test_neighbouring_seeds_and_places_have_nothing_in_common():
    """Mean, spread and correlation of numbers that should be uniform."""
    grid = torch.stack([uniforms(torch.full((4000,), seed), torch.arange(4000)) for seed in range(8)])

    assert grid.min() >= 0.0
    assert grid.max() < 1.0
    assert grid.mean(dim=1).tolist() == pytest.approx([0.5] * 8, abs=0.02)
    correlations = torch.corrcoef(grid) - torch.eye(8)
    assert correlations.abs().max() < 0.06
    assert torch.corrcoef(torch.stack([grid[:, :-1].flatten(), grid[:, 1:].flatten()]))[0, 1].abs() < 0.02


def test_seed_and_place_alone_decide():
    """A row has its number in any batch; rows without a seed have new ones."""
    seeds, places = torch.tensor([5, -1, 2**63 - 1]), torch.tensor([9, 9, 0])
    together = uniforms(seeds, places)

    assert together[0] == uniforms(seeds[:1], places[:1])[0]
    assert together[2] == uniforms(seeds[2:], places[2:])[0]
    assert together[1] != uniforms(seeds, places)[1]


def info(**about):
    whole = {"sampling_mask_batch_indices": None, "sampling_seed": torch.tensor([3])}
    kept = {"top_ks": torch.tensor([ALL]), "top_ps": torch.tensor([1.0]), "min_ps": torch.tensor([0.0])}
    return SimpleNamespace(**{**whole, **kept, **about})


def test_log_probabilities_are_those_of_what_was_drawn_from():
    """SGLang takes them of `probs` afterwards."""
    probs = torch.tensor([[0.1, 0.6, 0.3]])
    tokens, capture = sample(None, None, probs, info(top_ks=torch.tensor([2])), torch.tensor([4]), False)

    assert tokens.dtype == torch.int32
    assert capture is None
    assert probs.tolist()[0] == pytest.approx([0.0, 2 / 3, 1 / 3])
    assert tokens[0] in (1, 2)


def test_greedy_takes_the_likeliest_and_keeps_the_whole():
    """In a batch with others too."""
    probs = torch.tensor([[0.1, 0.6, 0.3]])
    tokens, _ = sample(None, None, probs, info(top_ks=torch.tensor([1])), torch.tensor([4]), False)

    assert tokens.tolist() == [1]
    assert probs.tolist()[0] == pytest.approx([0.1, 0.6, 0.3])


def test_masks_are_sglangs_own():
    """What core-rl does not ask for is left as it was."""
    asked = []
    sample(lambda *all: asked.append(all), "sampler", "probs", info(sampling_mask_batch_indices=[0]), "places", True)

    assert asked[0][:2] == ("sampler", "probs")


def test_seeds_come_along():
    """As the request has them; SGLang's own, in its deterministic mode, stay."""
    requests = [SimpleNamespace(sampling_params=SimpleNamespace(sampling_seed=seed)) for seed in (4, None)]
    batch = SimpleNamespace(reqs=requests, device="cpu")
    found = with_seeds(lambda *_: SimpleNamespace(sampling_seed=None), object, batch, 10)
    theirs = with_seeds(lambda *_: SimpleNamespace(sampling_seed="theirs"), object, batch, 10)

    assert found.sampling_seed.tolist() == [4, -1]
    assert theirs.sampling_seed == "theirs"
