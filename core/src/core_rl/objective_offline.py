"""What a train engine minimises on rows of a data set: a loss, extra losses, and no policy to stay near but what the losses name.

N tokens. Per token, inside the mask, value_t = loss_t; extra losses are added with their own masks and denominators
(`core_rl.objective_extras`). A loss of whole rows stands at every token of the row (see `core_rl.roles.scoring.Loss`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from core_rl.objective_extras import ExtraLoss, Extras, before_step, sums, unit_of, with_outputs
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.roles.scoring import Forward, Loss
    from core_rl.roles.train import Aggregation, PolicyOutputs, Unit


class OfflineObjective:
    """A `core_rl.roles.train.Objective`. `forward` is what losses with a `prepare` may ask: the train engine, without gradient.

    A `mask` of the main loss narrows the batch, also for extra losses: an engine computes nothing elsewhere. A log-probability in the
    mask that is not finite makes the loss and its gradient NaN; the metric `nan_tokens` is the share of such tokens.
    """

    entropy_grad = False

    def __init__(self, loss: Loss, *, forward: Forward, extras: Sequence[ExtraLoss] = ()) -> None:
        self.loss = loss
        self.extras = Extras(extras)
        self.unit: Unit = unit_of(self._losses)
        self._forward = forward

    @property
    def _losses(self) -> list[Any]:
        return [self.loss, *(extra.loss for extra in self.extras.losses)]

    def prepare(self, batch: PackedBatch, aggregation: Aggregation) -> PackedBatch:
        """The batch of one optimizer step with what must be known of it as a whole, before it is split."""
        narrowed = getattr(self.loss, "mask", None)
        if narrowed is not None:
            batch = batch.with_loss_mask(batch.loss_mask & narrowed(batch))
        for loss in self._losses:
            if hasattr(loss, "prepare"):
                batch = loss.prepare(batch, self._forward)
        return self.extras.prepare(before_step(self.loss, batch), aggregation)

    def __call__(self, outputs: PolicyOutputs, batch: PackedBatch) -> LossOutput:
        mask = batch.loss_mask
        said = outputs.logprobs if outputs.values is None else outputs.logprobs + outputs.values
        bad = mask & ~said.isfinite()
        logprobs = outputs.logprobs * torch.where(bad, torch.nan, 1.0)
        batch = with_outputs(batch, outputs)
        main, extra = self.loss(logprobs, batch), self.extras(logprobs, batch)
        terms = {"nan_tokens": bad.float()}
        if outputs.values is None:
            terms["entropy/mean"] = outputs.entropy
        return LossOutput(
            values=main.values.where(mask, 0.0),
            metrics=sums(terms, mask) | dict(main.metrics) | dict(extra.metrics),
            maxima={**main.maxima, **extra.maxima},
            direct=extra.direct if main.direct is None else main.direct + (0.0 if extra.direct is None else extra.direct),
        )
