"""Padded micro-batches, log-probabilities over a shard of the vocabulary, and parked memory. No processes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core_rl.errors import UserError
from core_rl.testing.batches import random_batch
from core_rl.train.micro_batches import MicroBatch, scored_sequences
from core_rl.train.vocabulary import Shard, token_logprobs, top_logprobs
from core_rl_megatron._backend import require_cuda
from core_rl_megatron._blocks import Block, PaddedPlan
from core_rl_megatron._parking import Parked

CPU = torch.device("cpu")


class Alone:
    """A group of one rank."""

    def size(self):
        return 1


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 99),
    ranks=st.integers(1, 3),
    multiple=st.integers(1, 3),
    budget=st.integers(4, 60),
    unit=st.sampled_from(["sequence", "group"]),
)
def test_every_scored_sequence_is_in_one_block(seed, ranks, multiple, budget, unit):
    """Ranks have equally many blocks, in multiples; a block with its padding keeps to the budget, and groups are whole where asked."""
    batch = random_batch(seed, num_groups=4)
    lists = PaddedPlan.of(batch, budget, unit=unit).of_ranks_in_multiples(batch, ranks, multiple)
    counted = [part.sequences for parts in lists for part in parts if part.counts]
    group, lengths = batch["group"].tolist(), batch.lengths.tolist()

    assert sorted(s for part in counted for s in part) == scored_sequences(batch)
    assert len({len(parts) for parts in lists}) == 1
    assert len(lists[0]) % multiple == 0
    for part in counted:
        groups = {group[s] for s in part}
        assert len(part) * max(lengths[s] for s in part) <= budget or len(part) == 1 or (unit == "group" and len(groups) == 1)
        if unit == "group":
            assert set(part) >= {s for s in scored_sequences(batch) if group[s] in groups}


@pytest.mark.parametrize("multiple", [1, 4])
def test_a_block_and_its_way_back(multiple):
    """`predictors` find the state before each scored token, where its own sequence and position say."""
    batch = random_batch(3, num_groups=4)
    sequences = scored_sequences(batch)[:4]
    block = Block.of(batch, MicroBatch(sequences=sequences), CPU, multiple=multiple)
    rows, width = block.tokens.shape
    # a "hidden state" that says which row and column it is of, [s, b, 2] as a model gives it
    hidden = torch.stack(torch.meshgrid(torch.arange(width), torch.arange(rows), indexing="ij"), -1)
    found = hidden.flatten(0, 1)[block.predictors]
    part = batch.select(sequences)

    assert width % multiple == 0
    assert torch.equal(found[:, 0], part.positions[block.scored].long() - 1)
    assert torch.equal(found[:, 1], part.sequence_ids[block.scored])
    assert torch.equal(block.tokens[found[:, 1], found[:, 0]], part.tokens[block.scored - 1])
    assert torch.equal(block.targets, part.tokens[part.loss_mask])
    assert torch.equal(batch.tokens[block.where], part.tokens)


@pytest.mark.parametrize("rows", [3, 100])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("entropy_grad", [True, False])
def test_log_probabilities_in_chunks(rows, temperature, entropy_grad):
    """Values and gradients are those of log_softmax in float64; rows of padding have no probability and no gradient."""
    random = torch.Generator().manual_seed(1)
    hidden, weight = (torch.randn(n, 5, generator=random).double().requires_grad_() for n in (8, 16))
    ids = torch.randint(0, 11, (8, 3), generator=random)
    pull = [torch.randn(8, 3, generator=random).double(), torch.randn(8, generator=random).double() * entropy_grad]
    shard = Shard(group=Alone(), start=0, size=11, temperature=temperature, rows=rows)
    logprobs, entropy = token_logprobs(hidden, weight, ids, shard, entropy_grad=entropy_grad)
    found = torch.autograd.grad((logprobs * pull[0]).sum() + (entropy * pull[1]).sum(), [hidden, weight])

    table = (hidden @ weight[:11].t() / temperature).log_softmax(1)
    plain = table.gather(1, ids), -(table.exp() * table).sum(1)
    expected = torch.autograd.grad((plain[0] * pull[0]).sum() + (plain[1] * pull[1]).sum(), [hidden, weight])
    torch.testing.assert_close((logprobs, entropy), plain)
    torch.testing.assert_close(found, expected)
    best = top_logprobs(hidden.detach(), weight.detach(), shard, 4)
    torch.testing.assert_close(best[::-1], tuple(table.detach().topk(4)))


def test_parked_tensors_come_back():
    """Contents and views are as before, scratch is zeros, and the memory in between is gone."""
    buffer, scratch = torch.arange(12.0), torch.ones(5)
    views = [buffer[:4], buffer[4:].view(2, 4)]
    copies = [view.clone() for view in views]
    parked = Parked(views, [scratch])

    assert buffer.untyped_storage().nbytes() == scratch.untyped_storage().nbytes() == 0
    parked.restore()
    assert all(torch.equal(a, b) for a, b in zip(views, copies, strict=True))
    buffer[5] = 7.0
    assert views[1][0, 1] == 7.0
    assert not scratch.any()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_machine_without_a_gpu_is_told_so():
    """Before megatron fails somewhere inside."""
    with pytest.raises(UserError, match="megatron computes on CUDA GPUs"):
        require_cuda(CPU)
