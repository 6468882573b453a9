"""From groups of samples to a packed batch."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.data.packing import check_batch, pack
from core_rl.data.sample import Group, Prompt, Sample, Turn, VersionSpan
from core_rl.errors import DataError

PROMPT = Prompt(id="p7", text="?")


def given_turn(*tokens):
    return Turn(tokens=tokens, generated=False)


def written(*tokens, logprobs=None, spans=()):
    versions = [VersionSpan(version=v, start=a, end=b) for v, a, b in spans]
    return Turn(tokens=tokens, generated=True, logprobs=logprobs or [-0.5] * len(tokens), versions=versions)


def sample(*turns, reward=1.0, finish_reason="stop"):
    return Sample(prompt=PROMPT, turns=turns, finish_reason=finish_reason, completion_text="", reward=reward)


def group(*samples):
    return Group(prompt=PROMPT, samples=list(samples))


def test_every_field_by_hand():
    """Two groups, a tool turn, a cut sample, a failed reward, tokens of two versions."""
    tool = sample(
        given_turn(1, 2), written(3, 4, 5, logprobs=[-1, -2, -3], spans=[(6, 0, 1), (7, 1, 3)]), given_turn(8), written(9)
    )
    cut = sample(given_turn(1), written(2, spans=[(7, 0, 1)]), reward=None, finish_reason="length")
    batch = pack([group(tool), group(), group(cut)])
    check_batch(batch)

    assert batch.tokens.tolist() == [1, 2, 3, 4, 5, 8, 9, 1, 2]
    assert batch.cu_seqlens.tolist() == [0, 7, 9]
    assert batch.positions.tolist() == [0, 1, 2, 3, 4, 5, 6, 0, 1]
    assert batch.loss_mask.int().tolist() == [0, 0, 1, 1, 1, 0, 1, 0, 1]
    assert batch["rollout_logprobs"].tolist() == [0, 0, -1, -2, -3, 0, -0.5, 0, -0.5]
    assert batch["versions"].tolist() == [-1, -1, 6, 7, 7, -1, -1, -1, 7]
    assert batch["group"].tolist() == [0, 2]
    assert batch["truncated"].tolist() == [False, True]
    assert batch["rewards"][0] == 1.0
    assert math.isnan(batch["rewards"][1])


def test_the_first_token_is_never_in_the_mask():
    """A sequence that the policy wrote from the start: nothing stands before its first token."""
    assert pack([group(sample(written(5, 6)))]).loss_mask.tolist() == [False, True]


def test_versions_between_spans_are_unknown():
    """An engine that did not stamp some tokens: -1 for those."""
    batch = pack([group(sample(given_turn(1), written(2, 3, 4, 5, spans=[(3, 1, 2), (4, 3, 4)])))])

    assert batch["versions"].tolist() == [-1, -1, 3, -1, 4]


def test_an_empty_completion_is_a_sequence_without_a_loss():
    """The model stopped at once and said nothing."""
    batch = pack([group(sample(given_turn(5, 6), written()))])

    assert batch.num_sequences == 1
    assert not batch.loss_mask.any()


@given(
    st.lists(st.lists(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=1, max_size=4), max_size=3), max_size=4)
)
@settings(deadline=None, max_examples=40)
def test_tokens_go_in_and_come_out(shape):
    """Whatever the turns, the batch is sound and holds each sample's tokens in order."""
    groups = [
        group(
            *(sample(given_turn(9), *((written if mine else given_turn)(*range(n)) for mine, n in turns)) for turns in samples)
        )
        for samples in shape
    ]
    samples = [one for g in groups for one in g.samples]
    if not samples:
        return
    batch = pack(groups)
    check_batch(batch)

    assert [row.tolist() for row in batch.tokens.split(batch.lengths.tolist())] == [one.tokens for one in samples]
    assert int(batch.loss_mask.sum()) == sum(one.num_generated for one in samples)


@pytest.mark.parametrize("groups", [[], [group()], [group(), group()]])
def test_nothing_to_pack_is_an_error(groups):
    """It says how many groups there were."""
    with pytest.raises(DataError, match=f"nothing to pack: {len(groups)} groups without a sample"):
        pack(groups)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (sample(), "prompt p7: a sample has no tokens"),
        (sample(given_turn(1), written(2, 3, logprobs=[-1.0])), "prompt p7: a generated turn has 2 tokens and 1 log-prob"),
        (
            sample(given_turn(1), written(2, logprobs=[math.nan])),
            "prompt p7, token 1: the rollout engine gave the log-probability nan",
        ),
        (sample(given_turn(1), written(2, logprobs=[-math.inf])), "prompt p7, token 1: .* -inf; it must be a finite number"),
        (sample(given_turn(1), written(2, spans=[(1, 0, 2)])), "prompt p7: the version span .* beyond the turn's 1 tokens"),
    ],
)
def test_samples_that_cannot_be_used_are_named(bad, message):
    """The prompt's id and the mend, also when a sound sample stands before it."""
    with pytest.raises(DataError, match=message):
        pack([group(sample(given_turn(1), written(2)), bad)])


def test_long_batches_are_packed_quickly_enough_to_be_no_cost():
    """Columns are built run by run: a run of 100 000 tokens is one entry."""
    long = sample(given_turn(1), written(*range(100_000)))
    batch = pack([group(long)])

    assert batch.num_tokens == 100_001
    assert torch.equal(batch.tokens[1:], torch.arange(100_000))
