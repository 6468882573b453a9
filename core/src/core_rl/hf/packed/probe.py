"""Does this model compute right when it is packed? A few tokens say so, whatever kind of model it is.

Attention through transformers' interface packs; recurrent layers, alibi and attention with a soft cap or sinks do not. The same
probe finds an output layer that is more than a linear map of the last hidden state.
"""

from __future__ import annotations

from typing import Any

import torch

from core_rl.data.batch import PackedBatch
from core_rl.errors import ModelError
from core_rl.hf.packed.choice import Attention
from core_rl.hf.packed.interface import UnsupportedAttentionError
from core_rl.hf.packed.layout import make_layout
from core_rl.hf.packed.policy import Policy

_TOLERANCE = 1e-3
_SEQUENCES = ((3, 4, 5, 6, 7, 8), (3, 4, 5, 9, 2), (8, 7, 6, 5))
_PREFIX = (3, 3, 0)


def probe(model: Any, *, logits_memory_mb: int, attention: Attention = "packed") -> Policy:
    """A policy that packs if the model can, else one that computes each sequence by itself.

    Raises:
        ModelError: the log-probabilities are wrong even then.
    """
    output = model.get_output_embeddings()
    batch = _batch(model.get_input_embeddings().weight.shape[0] if output is None else output.weight.shape[0])
    with torch.no_grad():
        expected = _plain_hidden(model, batch) if output is None else _plain(model, batch)
        packed = Policy(model, logits_memory_mb=logits_memory_mb, attention=attention)
        if _agrees(packed, batch, expected):
            return packed
        alone = Policy(model, logits_memory_mb=logits_memory_mb, packed=False)
        if _agrees(alone, batch, expected):
            return alone
    message = (
        f"model: the output layer of {model.config.model_type} is more than a linear map of the last hidden state, "
        "and the local train engine does not know how; use another train engine"
    )
    raise ModelError(message)


def _agrees(policy: Policy, batch: PackedBatch, expected: torch.Tensor) -> bool:
    try:
        with policy.attention():
            got = policy.outputs(batch, _PREFIX).logprobs if policy.has_logits else _hidden(policy, batch)
    except (UnsupportedAttentionError, TypeError):  # TypeError: a model whose forward knows no position_ids
        return False
    return bool((got - expected).abs().max() <= _TOLERANCE * expected.abs().max())


def _hidden(policy: Policy, batch: PackedBatch) -> torch.Tensor:
    """[M, E] hidden states before the scored tokens: what a value head reads."""
    layout = make_layout(batch, _PREFIX if policy.shares else [0] * batch.num_sequences, policy.device)
    return policy.hidden_states(layout)[layout.predictors].float().cpu()


def _plain_hidden(model: Any, batch: PackedBatch) -> torch.Tensor:
    """The same by the model's own forward on each sequence."""
    states = []
    for start, end in batch.cu_seqlens.unfold(0, 2, 1).tolist():
        tokens, mask = batch.tokens[start:end], batch.loss_mask[start + 1 : end]
        hidden = model.base_model(input_ids=tokens[None].to(model.device), use_cache=False).last_hidden_state[0]
        states.append(hidden[:-1].float().cpu()[mask])
    return torch.cat(states)


def _batch(vocabulary: int) -> PackedBatch:
    lengths = [len(sequence) for sequence in _SEQUENCES]
    cu_seqlens = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    positions = torch.cat([torch.arange(length, dtype=torch.int32) for length in lengths])
    return PackedBatch(
        tokens=torch.tensor([token for sequence in _SEQUENCES for token in sequence]) % vocabulary,
        cu_seqlens=cu_seqlens,
        positions=positions,
        loss_mask=positions >= torch.repeat_interleave(torch.tensor([3, 3, 1]), torch.tensor(lengths)),
        sequence_fields={"group": torch.tensor([0, 0, 1])},
    )


def _plain(model: Any, batch: PackedBatch) -> torch.Tensor:
    """[N] log-probabilities of the scored tokens, by the model's own forward on each sequence."""
    result = torch.zeros(batch.num_tokens)
    for start, end in batch.cu_seqlens.unfold(0, 2, 1).tolist():
        tokens = batch.tokens[start:end]
        logits = model(input_ids=tokens[None].to(model.device), use_cache=False).logits[0].float().cpu()
        result[start + 1 : end] = logits[:-1].log_softmax(-1).gather(1, tokens[1:, None])[:, 0]
    return result.where(batch.loss_mask, 0.0)
