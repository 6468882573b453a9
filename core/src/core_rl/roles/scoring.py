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
    from core_rl.roles.train import LossOutput, Weights


class Loss(Protocol):
    """Built as `Loss(options)`. Returns PER-TOKEN values [N] and never averages.

    Online, `batch` holds `advantages` [N] and `old_logprobs` [N]; whatever else the loss needs, its component declares in `needs`.
    Of the forward pass in progress the batch has `new_entropy` [N], `new_values` [N] (with `values` in `needs`) and `gathered_logprobs`
    [N, K] of the batch's `gather_ids` (with `gathered_logprobs` in `needs`); they carry their gradients.

    A loss of a whole sequence or of a pair stands at every token of it, in the mask: with the aggregation seq-mean-token-mean or
    prompt-mean its mean over sequences or groups comes out, with global denominators.

    Four attributes may be there. `before_step(batch)` gets the whole batch of an optimizer step, before it is split, and returns it
    with what must be known of it as a whole (a loss that reads `old_logprobs` there has them in `needs`); offline, `prepare(batch, forward)`
    does the same and may ask `forward` (see `Forward`). `unit`: "group" says that the sequences of one group must come in one micro-batch;
    without it a micro-batch may end between any two sequences. `mask(batch)` [N] bool: the tokens of `loss_mask` that an extra loss,
    or offline any loss, speaks of.
    """

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput: ...


class Forward(Protocol):
    """What the `prepare` of an offline loss may ask of the model: log-probabilities [N] float32, without gradient, 0 outside the mask."""

    def __call__(self, batch: PackedBatch, weights: Weights = "current") -> torch.Tensor: ...


class Advantage(Protocol):
    """Built as `Advantage(options)`. Returns tensors [N] to add to the batch: `advantages`, and `returns` if it has them."""

    def __call__(self, batch: PackedBatch) -> Mapping[str, torch.Tensor]: ...


class Normaliser(Protocol):
    """Built as `Normaliser(options)`. Centres and scales M values: the rewards of sequences, or the advantages of tokens."""

    def __call__(self, values: torch.Tensor, group: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """values [M] float32, group [M] int64, mask [M] bool -> [M] float32. Values outside the mask are in no statistic and
        come out as 0; so does NaN.
        """
        ...


class KlEstimator(Protocol):
    """Built as `Estimator(options)`. The order is always (policy, reference)."""

    def __call__(self, logprobs: torch.Tensor, ref_logprobs: torch.Tensor) -> torch.Tensor:
        """[N], [N] -> [N], differentiable in `logprobs`."""
        ...


class Resampler(Protocol):
    """Built as `Resampler(options)`. Says which sequences are trained on, once advantages are known."""

    def __call__(self, batch: PackedBatch, seed: int) -> list[int]:
        """Indices of sequences, with repetitions; the same for the same seed."""
        ...


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
