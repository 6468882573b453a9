"""The gradient of an objective, whatever the split into ranks and micro-batches. For tests of any loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import torch

from core_rl.roles.train import PolicyOutputs

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.roles.train import Aggregation, Objective

_OUTPUTS = {"logprobs": "logprobs", "entropy": "entropy", "new_values": "values", "gathered_logprobs": "gathered"}


@attrs.frozen(eq=False)
class Gradient:
    """The scalar loss, its gradient by `logprobs` [N], by `entropy` [N], and by what else the forward pass gave, and the metrics.

    `others` has the gradients by `new_values` [N] and `gathered_logprobs` [N, K], where the batch has them.
    """

    loss: float
    logprobs: torch.Tensor
    entropy: torch.Tensor
    metrics: dict[str, float]
    others: dict[str, torch.Tensor]


def gradient(
    objective: Objective, aggregation: Aggregation, batch: PackedBatch, ranks: Sequence[Sequence[Sequence[int]]] | None = None
) -> Gradient:
    """What a train engine computes from the outputs in the batch (`logprobs`, `entropy`, …): weights first, then rank by rank.

    `ranks` lists the micro-batches of each rank, as lists of sequence indices; None is one rank with one micro-batch.
    """
    if hasattr(objective, "prepare"):
        batch = objective.prepare(batch, aggregation)
    batch = batch.with_tokens(aggregation_weights=aggregation.weights(batch))
    names = [name for name in _OUTPUTS if name in batch]
    leaves = {name: torch.zeros_like(batch[name]) for name in names}
    loss, totals, maxima = 0.0, dict[str, list[float]](), dict[str, float]()
    for micro_batches in ranks or [[list(range(batch.num_sequences))]]:
        own = {name: batch[name].clone().requires_grad_() for name in names}
        for sequences in micro_batches:
            where, part = batch.token_indices(sequences), batch.select(sequences)
            output = objective(PolicyOutputs(**{_OUTPUTS[name]: own[name][where] for name in names}), part)
            piece = (output.values * part["aggregation_weights"]).sum()
            if output.direct is not None:
                piece = piece + output.direct.sum()
            if piece.requires_grad:
                torch.autograd.backward(piece)
            loss += piece.item()
            for name, (total, count) in output.metrics.items():
                entry = totals.setdefault(name, [0.0, 0.0])
                entry[0] += float(total)
                entry[1] += float(count)
            for name, value in output.maxima.items():
                maxima[name] = max(maxima.get(name, -torch.inf), float(value))
        for name, mine in own.items():
            leaves[name].add_(torch.zeros_like(mine) if mine.grad is None else mine.grad)
    metrics = {name: total / count for name, (total, count) in totals.items() if count} | maxima
    logprobs, entropy = leaves.pop("logprobs"), leaves.pop("entropy")
    return Gradient(loss, logprobs, entropy, metrics, leaves)
