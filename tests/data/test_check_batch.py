"""What `check_batch` refuses, and in which words."""

from __future__ import annotations

import attrs
import pytest
import torch

from core_rl.data.check import check_batch
from core_rl.errors import DataError
from core_rl.testing.batches import random_batch


@pytest.mark.parametrize("seed", range(5))
def test_sound_batches_pass(seed):
    """And so do parts of them."""
    batch = random_batch(seed)
    check_batch(batch)
    check_batch(batch.select([batch.num_sequences - 1, 0]))


def _with(**changes):
    return lambda batch: attrs.evolve(batch, **{name: change(batch) for name, change in changes.items()})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_with(tokens=lambda b: b.tokens.int()), "tokens is a vector of torch.int64, found torch.int32"),
        (_with(loss_mask=lambda b: b.loss_mask.float()), "loss_mask is a vector of torch.bool, found torch.float32"),
        (_with(cu_seqlens=lambda b: b.cu_seqlens[:1]), "it has no sequence"),
        (_with(cu_seqlens=lambda b: b.cu_seqlens[:-1]), "cu_seqlens rises from 0 to the number of tokens"),
        (_with(cu_seqlens=lambda b: b.cu_seqlens.index_fill(0, torch.tensor([1]), 0)), "cu_seqlens rises from 0"),
        (_with(positions=lambda b: b.positions + 1), "positions are 0, 1, 2, … in every sequence"),
        (_with(positions=lambda b: b.positions[:-1]), "positions has one entry for each of"),
        (_with(loss_mask=lambda b: torch.ones_like(b.loss_mask)), "the first token of a sequence is never in loss_mask"),
        (lambda b: b.with_tokens(values=torch.zeros(3)), "values has one entry for each of .* tokens, found shape"),
        (lambda b: b.with_sequences(group=b["group"].int()), "group is torch.int64, found torch.int32"),
        (lambda b: b.with_sequences(rewards=b["rewards"][:-1]), "rewards has one entry for each of .* sequences"),
    ],
)
def test_what_is_wrong_is_said(spoil, message):
    """The field, what it should be, what it is."""
    with pytest.raises(DataError, match=message):
        check_batch(spoil(random_batch(0)))


def test_everything_wrong_is_said_at_once():
    """One line for each."""
    batch = random_batch(0)
    batch = attrs.evolve(batch, positions=batch.positions + 1, loss_mask=torch.ones_like(batch.loss_mask))

    with pytest.raises(DataError) as raised:
        check_batch(batch)
    assert len(str(raised.value).splitlines()) == 2
