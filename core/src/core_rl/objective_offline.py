"""What a train engine minimises on rows of a data set: a loss of the tokens to learn, and extra losses beside it.

N tokens. Per token, inside the mask, value_t = loss_t; extra losses are added with their own masks and denominators
(`core_rl.objective_extras`). A loss of whole rows stands at every token of the row (see `core_rl.roles.scoring.Loss`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from core_rl.objective_extras import ExtraLoss, Extras, before_step, sums, unit_of, with_outputs
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.roles.scoring import Forward, Loss
    from core_rl.roles.train import Aggregation, PolicyOutputs, Unit


class OfflineObjective:
    """A `core_rl.roles.train.Objective`.

    A `mask` of the main loss narrows the batch, also for extra losses: an engine computes nothing elsewhere. A log-probability or value
    in the mask that is not finite makes the loss and its gradient NaN; the metric `nan_tokens` is the share of such tokens.
    """

    entropy_grad = False

    def __init__(self, loss: Loss, extras: Sequence[ExtraLoss] = ()) -> None:
        self.loss = loss
        self.extras = Extras(extras)
        self._losses = [loss, *(extra.loss for extra in extras)]
        self.unit: Unit = unit_of(self._losses)

    def prepare(self, batch: PackedBatch, aggregation: Aggregation, forward: Forward | None = None) -> PackedBatch:
        """The batch of one optimizer step with what must be known of it as a whole, before it is split.

        `forward` is given to each loss that has a `prepare(batch, forward) -> PackedBatch`, for what only all rows together tell, such as
        the mean divergence of KTO; what it adds must be constant in the weights. Without `forward` that has been done already.
        """
        narrowed = getattr(self.loss, "mask", None)
        if narrowed is not None:
            batch = batch.with_loss_mask(batch.loss_mask & narrowed(batch))
        for loss in self._losses:
            method = getattr(loss, "prepare", None)
            if method is not None and forward is not None:
                batch = method(batch, forward)
        return self.extras.prepare(before_step(self.loss, batch), aggregation)

    def __call__(self, outputs: PolicyOutputs, batch: PackedBatch) -> LossOutput:
        mask = batch.loss_mask
        read = outputs.logprobs if outputs.values is None else outputs.logprobs + outputs.values
        bad = mask & ~read.isfinite()
        logprobs = outputs.logprobs * torch.where(bad, torch.nan, 1.0)  # whatever the loss does with it, the step is refused
        batch = with_outputs(batch, outputs)
        main, extra = self.loss(logprobs, batch), self.extras(logprobs, batch)
        terms = {"nan_tokens": bad.float()} | ({"entropy/mean": outputs.entropy} if outputs.values is None else {})
        return LossOutput(
            values=main.values.where(mask, 0.0),
            metrics=sums(terms, mask) | dict(main.metrics) | dict(extra.metrics),
            maxima={**main.maxima, **extra.maxima},
            direct=extra.direct if main.direct is None else main.direct + (0.0 if extra.direct is None else extra.direct),
        )
