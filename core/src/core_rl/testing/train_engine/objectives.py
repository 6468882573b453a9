"""What the conformance suite minimises: small objectives, each with one thing that an engine may get wrong. They pickle.

N tokens, S sequences, G groups of a micro-batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import torch

from core_rl.numerics.groups import Groups
from core_rl.numerics.segments import broadcast, segment_count, segment_mean
from core_rl.roles.train import LossOutput, PolicyOutputs, Unit

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch


@attrs.define(kw_only=True)
class Ratio:
    """-A exp(log pi - log pi_old), with the terms that are asked for.

    Metrics count tokens, sequences and nothing at all; one is a maximum.
    """

    entropy_coef: float = 0.0
    direct_coef: float = 0.0
    """Of a term with weights of its own, which the engine adds as it is."""
    gathered_coef: float = 0.0
    value_coef: float = 0.0
    nan_in_group: int | None = None
    unit: Unit = "sequence"
    entropy_grad: bool = attrs.field(init=False)

    @entropy_grad.default
    def _has_entropy(self) -> bool:
        return self.entropy_coef != 0

    def __call__(self, outputs: PolicyOutputs, batch: PackedBatch) -> LossOutput:
        mask, ratio = batch.loss_mask, (outputs.logprobs - batch["old_logprobs"]).clamp(max=5.0).exp()
        values = -batch["advantages"] * ratio
        if self.entropy_coef:
            values = values - self.entropy_coef * outputs.entropy
        if self.gathered_coef and outputs.gathered is not None:
            values = values + self.gathered_coef * outputs.gathered.square().mean(dim=-1)
        if self.value_coef and outputs.values is not None:
            values = values + self.value_coef * (outputs.values - batch["returns"]).square()
        if self.nan_in_group is not None:
            broken = broadcast(batch["group"] == self.nan_in_group, batch.cu_seqlens, batch.num_tokens)
            values = values * torch.where(broken, torch.nan, 1.0)
        return LossOutput(
            values=values.where(mask, 0.0),
            metrics=_metrics(outputs.logprobs.detach(), ratio.detach(), batch),
            maxima={"ratio_max": ratio.detach().where(mask, 0.0).amax()},
            direct=(self.direct_coef * outputs.logprobs.square()).where(mask, 0.0) if self.direct_coef else None,
        )


@attrs.define(kw_only=True)
class Value:
    """(V - R)^2: of a critic, which has no log-probabilities."""

    entropy_grad: bool = False
    unit: Unit = "sequence"

    def __call__(self, outputs: PolicyOutputs, batch: PackedBatch) -> LossOutput:
        assert outputs.values is not None
        mask, error = batch.loss_mask, outputs.values - batch["returns"]
        metrics = {"value": (outputs.values.detach().abs().where(mask, 0.0).sum(), mask.sum())}
        return LossOutput(values=error.square().where(mask, 0.0), metrics=metrics)


@attrs.define(kw_only=True)
class WithinGroup:
    """The squared distance of a sequence's mean log-probability to the mean over its group: wrong for a group that was cut."""

    entropy_grad: bool = False
    unit: Unit = "group"

    def __call__(self, outputs: PolicyOutputs, batch: PackedBatch) -> LossOutput:
        mask, groups = batch.loss_mask, Groups.of(batch["group"])
        own = segment_mean(outputs.logprobs, batch.cu_seqlens, mask)
        mean = groups.spread(groups.sum(own) / groups.sizes)
        values = broadcast((own - mean).square() + own, batch.cu_seqlens, batch.num_tokens).where(mask, 0.0)
        sizes = torch.tensor(float(batch.num_sequences), device=values.device)
        count = torch.tensor(float(groups.sizes.numel()), device=values.device)
        return LossOutput(values=values, metrics={"sequences_of_group": (sizes, count)})


def _metrics(logprobs: torch.Tensor, ratio: torch.Tensor, batch: PackedBatch) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    mask = batch.loss_mask
    tokens, scored = mask.sum(), segment_count(mask, batch.cu_seqlens)
    return {
        "logprob": (logprobs.where(mask, 0.0).sum(), tokens),
        "ratio": (ratio.where(mask, 0.0).sum(), tokens),
        "scored_tokens_of_sequence": (scored.sum().float(), (scored > 0).sum()),
        "counts_nothing": (tokens * 0.0, tokens * 0),
    }
