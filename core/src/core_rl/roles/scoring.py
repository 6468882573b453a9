"""The contracts of the algorithm's parts: loss, advantage, rejection. And of rewards.

N tokens of a packed batch, S sequences.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import attrs

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch
    from core_rl.data.sample import Sample
    from core_rl.roles.train import LossOutput


class Loss(Protocol):
    """Built as `Loss(options)`. Returns PER-TOKEN values and never averages.

    `batch` holds `advantages` [N] and `old_logprobs` [N]; whatever else it needs, its component declares in `needs`.
    """

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput: ...


class Advantage(Protocol):
    """Built as `Advantage(options)`. Returns tensors [N] to add to the batch: `advantages`, and `returns` if it has them."""

    def __call__(self, batch: PackedBatch) -> Mapping[str, torch.Tensor]: ...


@attrs.frozen(kw_only=True)
class Verdict:
    """What a rejection says of every token of the batch.

    `keep` [N] bool: a token outside leaves numerator and denominator (`loss_mask` is narrowed).
    `weights` [N] float32 or None: multiplies the policy loss of a token; the denominators stay.
    """

    keep: torch.Tensor
    weights: torch.Tensor | None = None
    metrics: Mapping[str, float] = attrs.field(factory=dict)


class Rejection(Protocol):
    """Built as `Rejection(options)`. Applied in list order; one that needs `old_logprobs` runs after they are known."""

    def __call__(self, batch: PackedBatch) -> Verdict: ...


@attrs.frozen(kw_only=True)
class RewardOutcome:
    """A reward's value, and facts about it for the sample log."""

    value: float
    info: Mapping[str, Any] = attrs.field(factory=dict)


class Reward(Protocol):
    """Built as `Reward(options)`. `score` may be plain or async; it may raise, hang or return NaN: the scorer sees to it.

    `sample.completion_text`, `sample.prompt` (with `answer` and `metadata`) and `sample.finish_reason` are there to read.
    A plain `score` runs in a thread and must be safe to call from several.
    """

    def score(self, sample: Sample) -> float | RewardOutcome | Awaitable[float | RewardOutcome]: ...
