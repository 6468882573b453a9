"""The contract of a train engine: it holds the weights and changes them. It knows nothing of algorithms.

N tokens of a packed batch, S sequences, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import attrs

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch
    from core_rl.hf.spec import ModelSpec

TokenOutput = Literal["logprobs", "entropy"]
Weights = Literal["current", "reference"]


@attrs.frozen(kw_only=True)
class PolicyOutputs:
    """What the model says of the tokens of a (micro-)batch; every tensor is [N] float32, 0 outside `loss_mask`.

    `entropy` carries a gradient only when the objective asked for `entropy_grad`.
    """

    logprobs: torch.Tensor
    entropy: torch.Tensor


@attrs.frozen(kw_only=True)
class LossOutput:
    """Per-token loss values [N] (never averaged) and metrics as (sum, count) scalars, both detached.

    The metric of a step is the total of the sums over the total of the counts; a total count of 0 leaves the metric out.
    `maxima` are detached scalars of which a step reports the largest over its micro-batches; their names end in `_max`.
    """

    values: torch.Tensor
    metrics: Mapping[str, tuple[torch.Tensor, torch.Tensor]]
    maxima: Mapping[str, torch.Tensor] = attrs.field(factory=dict)


class Objective(Protocol):
    """What a train engine minimises: per-token values, weighted by `Aggregation` over the whole batch."""

    entropy_grad: bool

    def __call__(self, outputs: PolicyOutputs, batch: PackedBatch) -> LossOutput: ...


class Aggregation(Protocol):
    """The weight of every token in the scalar loss, from GLOBAL denominators: loss = sum_t weight_t * value_t."""

    def weights(self, batch: PackedBatch) -> torch.Tensor:
        """[N] float32, zero outside `loss_mask`; computed once over the whole batch, before it is split."""
        ...


@attrs.frozen(kw_only=True)
class StepReport:
    """One optimizer step. `skipped` says that the weights did not change (a gradient that is not finite)."""

    loss: float
    grad_norm: float
    lr: float
    num_tokens: int
    num_micro_batches: int
    skipped: bool = False
    metrics: Mapping[str, float] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class TrainContext:
    """What every train engine is built with, beside its own options."""

    model: ModelSpec
    seed: int
    total_steps: int
    """Optimizer steps of the whole run, for the schedule of the learning rate."""
    temperature: float = 1.0
    """Divides the logits of every log-probability and entropy: the policy is the distribution that samples were drawn from."""
    reference: bool = False
    """Whether log-probabilities of a frozen reference policy will be asked for."""


class TrainEngine(Protocol):
    """Built as `Engine(options, context)`. Nothing is loaded before `setup`."""

    def setup(self) -> None: ...

    def forward(
        self, batch: PackedBatch, outputs: Sequence[TokenOutput] = ("logprobs",), *, weights: Weights = "current"
    ) -> dict[str, torch.Tensor]:
        """Per-token tensors [N] float32 on the CPU, without gradient, 0 outside `loss_mask`."""
        ...

    def train_step(self, batch: PackedBatch, objective: Objective, aggregation: Aggregation) -> StepReport:
        """One optimizer step on the whole batch: micro-batches by token budget, clip, step."""
        ...

    def reset_reference(self) -> None:
        """Make the reference policy a copy of the current one."""
        ...

    def export_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The current weights under their Hugging Face names, one tensor at a time."""
        ...

    def save(self, path: Path) -> None:
        """Everything that `load` needs to go on exactly: weights, optimizer, schedule, RNG. `path` is an empty folder."""
        ...

    def load(self, path: Path) -> None: ...

    def save_hf(self, path: Path) -> None:
        """The current weights, config and tokenizer as a folder that `from_pretrained` loads."""
        ...

    def offload(self) -> None: ...

    def onload(self) -> None: ...

    def close(self) -> None: ...

    def describe(self) -> Mapping[str, Any]:
        """Facts for the manifest: parameters, device, dtype, …"""
        ...
