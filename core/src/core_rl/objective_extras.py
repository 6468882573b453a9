"""What all objectives share: the forward pass as a part of the batch, extra losses with denominators of their own, metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import torch

from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.roles.scoring import Loss
    from core_rl.roles.train import Aggregation, PolicyOutputs, Unit


@attrs.frozen(kw_only=True)
class ExtraLoss:
    """A loss beside the main one. `aggregation` None: the main one's."""

    name: str
    loss: Loss
    weight: float = 1.0
    aggregation: Aggregation | None = None


class Extras:
    """The sum of extra losses, each averaged over its own tokens: sum_j weight_j sum_t w_jt l_jt, with w_j from global denominators."""

    def __init__(self, losses: Sequence[ExtraLoss]) -> None:
        self.losses = losses

    def prepare(self, batch: PackedBatch, aggregation: Aggregation) -> PackedBatch:
        """The whole batch of an optimizer step with the weights w_j in it."""
        for extra in self.losses:
            batch = before_step(extra.loss, batch)
            own = batch.with_loss_mask(self._mask(extra, batch))
            weights = (extra.aggregation or aggregation).weights(own)
            batch = batch.with_tokens(**{_key(extra): weights})
        return batch

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        """`direct` is None without extra losses; `values` are 0."""
        direct: torch.Tensor | None = None
        metrics: dict[str, Any] = {}
        maxima: dict[str, torch.Tensor] = {}
        for extra in self.losses:
            output = extra.loss(logprobs, batch)
            weights = batch[_key(extra)]
            values = output.values.where(weights != 0, 0.0)  # what a loss says of other tokens must not count, not even NaN
            term = extra.weight * weights * values
            direct = term if direct is None else direct + term
            metrics |= sums({f"extra/{extra.name}": values}, weights != 0) | dict(output.metrics)
            maxima |= output.maxima
        return LossOutput(values=torch.zeros_like(logprobs), metrics=metrics, maxima=maxima, direct=direct)

    @staticmethod
    def _mask(extra: ExtraLoss, batch: PackedBatch) -> torch.Tensor:
        narrowed = getattr(extra.loss, "mask", None)
        return batch.loss_mask if narrowed is None else batch.loss_mask & narrowed(batch)


def before_step(loss: Loss, batch: PackedBatch) -> PackedBatch:
    """What a loss says of a whole batch before it is split, where it says anything."""
    method = getattr(loss, "before_step", None)
    prepared: PackedBatch = batch if method is None else method(batch)
    return prepared


def _key(extra: ExtraLoss) -> str:
    return f"extra_weights/{extra.name}"


def with_outputs(batch: PackedBatch, outputs: PolicyOutputs) -> PackedBatch:
    """The batch with what the forward pass says, gradients and all, for losses that ask for it."""
    found = {"new_entropy": outputs.entropy, "new_values": outputs.values, "gathered_logprobs": outputs.gathered}
    return batch.with_tokens(**{name: value for name, value in found.items() if value is not None})


def unit_of(losses: Sequence[Loss]) -> Unit:
    """The largest unit that any of them asks for."""
    return "group" if any(getattr(loss, "unit", "sequence") == "group" for loss in losses) else "sequence"


def sums(terms: Mapping[str, torch.Tensor], mask: torch.Tensor) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """(sum over the mask, tokens in the mask) of each term, detached."""
    count = mask.sum()
    return {name: (term.detach().where(mask, 0.0).sum(), count) for name, term in terms.items()}
