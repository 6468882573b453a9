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


@attrs.frozen(eq=False)
class Gradient:
    """The scalar loss, its gradient by `logprobs` [N] and by `entropy` [N], and the metrics of the step."""

    loss: float
    logprobs: torch.Tensor
    entropy: torch.Tensor
    metrics: dict[str, float]


def gradient(
    objective: Objective, aggregation: Aggregation, batch: PackedBatch, ranks: Sequence[Sequence[Sequence[int]]] | None = None
) -> Gradient:
    """What a train engine computes from the `logprobs` and `entropy` in the batch: weights first, then rank by rank.

    `ranks` lists the micro-batches of each rank, as lists of sequence indices; None is one rank with one micro-batch.
    """
    batch = batch.with_tokens(aggregation_weights=aggregation.weights(batch))
    leaves = [torch.zeros_like(batch["logprobs"]), torch.zeros_like(batch["entropy"])]
    loss, totals, maxima = 0.0, dict[str, list[float]](), dict[str, float]()
    for micro_batches in ranks or [[list(range(batch.num_sequences))]]:
        own = [batch[name].clone().requires_grad_() for name in ("logprobs", "entropy")]
        for sequences in micro_batches:
            where, part = batch.token_indices(sequences), batch.select(sequences)
            output = objective(PolicyOutputs(logprobs=own[0][where], entropy=own[1][where]), part)
            piece = (output.values * part["aggregation_weights"]).sum()
            if piece.requires_grad:
                torch.autograd.backward(piece)
            loss += piece.item()
            for name, (total, count) in output.metrics.items():
                entry = totals.setdefault(name, [0.0, 0.0])
                entry[0] += float(total)
                entry[1] += float(count)
            for name, value in output.maxima.items():
                maxima[name] = max(maxima.get(name, -torch.inf), float(value))
        for leaf, mine in zip(leaves, own, strict=True):
            leaf.add_(torch.zeros_like(mine) if mine.grad is None else mine.grad)
    metrics = {name: total / count for name, (total, count) in totals.items() if count}
    return Gradient(loss, leaves[0], leaves[1], metrics | maxima)
