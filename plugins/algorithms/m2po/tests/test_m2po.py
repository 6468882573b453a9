"""The rejection and the algorithm `m2po`."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.config.load import load_run_file
from core_rl.testing.batches import random_batch
from core_rl_m2po.config import M2poConfig
from core_rl_m2po.m2po import M2po


def load(tmp_path, algorithm):
    file = tmp_path / "run.yaml"
    model = 'model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}'
    data = "data: {name: jsonl, path: rows.jsonl}"
    file.write_text(f"{model}\n{data}\nrewards: [math]\nalgorithm: {algorithm}\n")
    return load_run_file(file).algorithm.options


def naive(squares, threshold):
    """Which are kept: drop the largest one by one until the mean of the rest is under the bound, or one is left."""
    left = sorted(range(len(squares)), key=lambda i: squares[i])
    while len(left) > 1 and sum(squares[i] for i in left) / len(left) >= threshold:
        left.pop()
    return set(left)


@given(seed=st.integers(0, 500), spread=st.sampled_from([0.05, 0.2, 1.0]), threshold=st.sampled_from([1e-6, 0.01, 0.04, 1.0]))
@settings(deadline=None, max_examples=50)
def test_it_is_the_papers_rule(seed, spread, threshold):
    """Against dropping one token after the other."""
    batch = random_batch(seed, spread=spread)
    where = batch.loss_mask.nonzero()[:, 0].tolist()
    squares = [(batch["rollout_logprobs"][t] - batch["old_logprobs"][t]).double().item() ** 2 for t in where]
    keep = M2po(M2poConfig(threshold=threshold))(batch).keep
    kept = {i for i, t in enumerate(where) if keep[t]}

    assert kept == (naive(squares, threshold) if where else set())


def test_exactly_one_token_is_left_where_none_is_near_enough():
    """And it is the nearest."""
    batch = random_batch(0)
    verdict = M2po(M2poConfig(threshold=1e-12))(batch)
    distances = (batch["rollout_logprobs"] - batch["old_logprobs"]).abs().where(batch.loss_mask, torch.inf)

    assert int((verdict.keep & batch.loss_mask).sum()) == 1
    assert bool(verdict.keep[distances.argmin()])


def test_equal_policies_lose_nothing_and_an_empty_mask_is_no_error():
    """d = 0 everywhere; no token at all."""
    batch = random_batch(0)
    same = M2po(M2poConfig())(batch.with_tokens(rollout_logprobs=batch["old_logprobs"]))
    empty = M2po(M2poConfig())(batch.with_loss_mask(torch.zeros_like(batch.loss_mask)))

    assert same.keep.all()
    assert same.metrics["m2po/dropped_frac"] == 0.0
    assert empty.keep.all()


def test_the_algorithm(tmp_path):
    """The paper's threshold, no clip, and the old policy known before training."""
    from core_rl.loops.parts import proximal_mode

    options = load(tmp_path, "m2po")

    assert [(one.name, one.options.threshold) for one in options.rejections] == [("m2po", 0.04)]
    assert (options.loss.options.clip_low, options.loss.options.clip_high) == (1.0, 1e6)
    assert proximal_mode(options) == "recompute"


def test_a_threshold_is_above_zero():
    """With 0 nothing could be left."""
    with pytest.raises(ValueError, match="threshold"):
        M2poConfig(threshold=0.0)
