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

TokenOutput = Literal["logprobs", "entropy", "values"]
Heads = Literal["policy", "value", "both"]
Unit = Literal["sequence", "group"]
Weights = Literal["current", "reference"]


@attrs.frozen(kw_only=True)
class PolicyOutputs:
    """What the model says of the tokens of a (micro-)batch; every tensor is [N] float32, 0 outside `loss_mask`.

    `entropy` carries a gradient only when the objective asked for `entropy_grad`. `values` is there with a value head: like a
    log-probability it stands at the token that follows the state it speaks of. Without a policy head the first two are 0.
    `gathered` [N, K] are the log-probabilities of the batch's `gather_ids` [N, K] at the place of each token, where the batch has them.
    """

    logprobs: torch.Tensor
    entropy: torch.Tensor
    values: torch.Tensor | None = None
    gathered: torch.Tensor | None = None


@attrs.frozen(kw_only=True)
class LossOutput:
    """Per-token loss values [N] (never averaged) and metrics as (sum, count) scalars, both detached.

    The scalar loss is sum_t weights_t · values_t + sum_t direct_t: `direct` [N] has its own global weights in it already.

    The metric of a step is the total of the sums over the total of the counts; a total count of 0 leaves the metric out.
    `maxima` are detached scalars of which a step reports the largest over its micro-batches; their names end in `_max`.
    """

    values: torch.Tensor
    metrics: Mapping[str, tuple[torch.Tensor, torch.Tensor]]
    maxima: Mapping[str, torch.Tensor] = attrs.field(factory=dict)
    direct: torch.Tensor | None = None


class Objective(Protocol):
    """What a train engine minimises: per-token values, weighted by `Aggregation` over the whole batch.

    `unit`: "group" asks for the sequences of one group to be in one micro-batch and on one rank, even beyond the token budget.
    """

    entropy_grad: bool
    unit: Unit

    def __call__(self, outputs: PolicyOutputs, batch: PackedBatch) -> LossOutput: ...


class Aggregation(Protocol):
    """The weight of every token in the scalar loss, from GLOBAL denominators: loss = sum_t weight_t * value_t.

    As a component it is built as `Aggregation(options, max_new_tokens)`: the longest completion that sampling allows.
    """

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
    heads: Heads = "policy"
    """`policy`: log-probabilities. `value`: a critic or a reward model, one number per token. `both`: on one trunk."""
    frozen: bool = False
    """Never trained (a teacher): no gradients, no optimizer; `train_step`, `save` and `load` are not called."""


class TrainEngine(Protocol):
    """Built as `Engine(options, context)`. Nothing is loaded before `setup`."""

    def setup(self) -> None:
        """Load the model and make the optimizer."""
        ...

    def forward(
        self,
        batch: PackedBatch,
        outputs: Sequence[TokenOutput] = ("logprobs",),
        *,
        weights: Weights = "current",
        top_k: int | None = None,
    ) -> dict[str, torch.Tensor]:
        """Per-token tensors [N] float32 on the CPU, without gradient, 0 outside `loss_mask`.

        `top_k` adds `topk_ids` [N, k] int64 and `topk_logprobs` [N, k] float32, the likeliest tokens in each token's place, best first;
        k is at most the vocabulary. A batch with `gather_ids` [N, K] adds `gathered_logprobs` [N, K].
        """
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

    def load(self, path: Path) -> None:
        """What `save` wrote, after `setup`."""
        ...

    def save_hf(self, path: Path) -> None:
        """The current weights, config and tokenizer as a folder that `from_pretrained` loads."""
        ...

    def offload(self) -> None:
        """Move weights and the optimizer's state off the device, to leave its memory to others."""
        ...

    def onload(self) -> None:
        """Move them back; nothing has changed."""
        ...

    def close(self) -> None:
        """Give back memory and processes; also after a `setup` that failed half-way."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """Facts for the manifest: parameters, device, dtype, …"""
        ...
