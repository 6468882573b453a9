"""Encoded rows as a packed batch: its layout, its fields, and that it is one."""

from __future__ import annotations

import pytest
import torch

from core_rl.data.check import check_batch
from core_rl.data.encode import Encoded
from core_rl.data.offline import pack_rows
from core_rl.data.records import Conversation, Labelled, Pair
from core_rl.errors import DataError


def encoded(*tokens):
    """The second half is learnt."""
    return Encoded(tokens=tokens, learnt=[index > 0 and 2 * index >= len(tokens) for index in range(len(tokens))])


def pair(name, **fields):
    return Pair(id=name, prompt="a", chosen="b", rejected="c", **fields)


def test_a_pair_is_a_group_and_chosen_comes_first():
    """Two sequences a row; margins and references of both sides, in their places."""
    rows = [
        (pair("x", margin=0.5, ref_chosen=-1.0, ref_rejected=-2.0), [encoded(3, 4, 5), encoded(3, 6)]),
        (pair("y", margin=1.5, ref_chosen=-3.0, ref_rejected=-4.0), [encoded(7, 8), encoded(7, 9, 9, 9)]),
    ]
    batch = pack_rows(rows)
    check_batch(batch)

    assert batch.tokens.tolist() == [3, 4, 5, 3, 6, 7, 8, 7, 9, 9, 9]
    assert batch.cu_seqlens.tolist() == [0, 3, 5, 7, 11]
    assert batch.positions.tolist() == [0, 1, 2, 0, 1, 0, 1, 0, 1, 2, 3]
    assert batch.loss_mask.tolist() == [False, False, True, False, True, False, True, False, False, True, True]
    assert batch["group"].tolist() == [0, 0, 1, 1]
    assert batch["chosen"].tolist() == [True, False, True, False]
    assert batch["margin"].tolist() == [0.5, 0.5, 1.5, 1.5]
    assert batch["ref_sequence_logprobs"].tolist() == [-1.0, -2.0, -3.0, -4.0]


def test_fields_that_not_every_row_has_are_left_out():
    """No number is made up for the others."""
    batch = pack_rows([(pair("x", margin=0.5), [encoded(3, 4)] * 2), (pair("y"), [encoded(3, 4)] * 2)])

    assert "margin" not in batch
    assert "ref_sequence_logprobs" not in batch


def test_labelled_rows_and_conversations():
    """Good and bad completions say so; conversations have no field of their own."""
    good, bad = (Labelled(id=str(flag), prompt="a", completion="b", desirable=flag) for flag in (True, False))
    labelled = pack_rows([(good, [encoded(3, 4)]), (bad, [encoded(3, 5)])])
    conversations = pack_rows([(Conversation(id="x", completion="ab"), [encoded(3, 4)])])

    assert labelled["desirable"].tolist() == [True, False]
    assert labelled["group"].tolist() == [0, 1]
    assert set(conversations.sequence_fields) == {"group"}
    assert conversations.loss_mask.dtype == torch.bool


def test_nothing_is_an_error():
    """A step without a row."""
    with pytest.raises(DataError, match="nothing to pack"):
        pack_rows([])
