"""A train engine whose ranks are in a worker group, as the driver sees it.

Every method is called on all ranks with the same arguments; they come to the same result, of which rank 0's is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core_rl.errors import UserError
from core_rl.plugins.build import worker_form

if TYPE_CHECKING:
    import torch

    from core_rl.component import Component
    from core_rl.data.batch import PackedBatch
    from core_rl.roles.train import Aggregation, Objective, StepReport, TokenOutput, TrainContext, Weights
    from core_rl.workers.group import WorkerGroup


class RemoteTrainEngine:
    """A `core_rl.roles.train.TrainEngine`. `key` is its name in the group, which may hold other engines and begins with the first."""

    group: WorkerGroup

    def __init__(
        self, begin: Callable[[], WorkerGroup], key: str, component: Component, options: Any, context: TrainContext
    ) -> None:
        self.key = key
        self._begin = begin
        self._form = worker_form(component, options)
        self._context = context
        self._made = False

    def setup(self) -> None:
        self.group = self._begin()
        self.group.create(self.key, self._form, self._context)
        self._made = True
        self._call("setup")

    def forward(
        self,
        batch: PackedBatch,
        outputs: Sequence[TokenOutput] = ("logprobs",),
        *,
        weights: Weights = "current",
        top_k: int | None = None,
    ) -> dict[str, torch.Tensor]:
        more = {} if top_k is None else {"top_k": top_k}  # an engine that provides no topk_logprobs need not know the word
        found: dict[str, torch.Tensor] = self._call("forward", batch, outputs, weights=weights, **more)
        return found

    def train_step(self, batch: PackedBatch, objective: Objective, aggregation: Aggregation) -> StepReport:
        report: StepReport = self._call("train_step", batch, objective, aggregation)
        return report

    def reset_reference(self) -> None:
        self._call("reset_reference")

    def export_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        yield from self.group.stream(self.key, "export_weights")

    def save(self, path: Path) -> None:
        self._call("save", path)

    def load(self, path: Path) -> None:
        self._call("load", path)

    def save_hf(self, path: Path) -> None:
        self._call("save_hf", path)

    def offload(self) -> None:
        self._call("offload")

    def onload(self) -> None:
        self._call("onload")

    def close(self) -> None:
        """Also when `setup` failed or never ran, or the workers are gone."""
        if self._made:
            self._made = False
            self.group.remove(self.key)

    def describe(self) -> Mapping[str, Any]:
        facts: Mapping[str, Any] = self._call("describe")
        return {**facts, "workers": self.group.world_size}

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return self.group.call(self.key, method, *args, **kwargs)


def refuse_alone(component: Component, workers: int) -> None:
    """Raises `UserError` for a component that is one process on several workers."""
    if workers > 1 and "distributed" not in component.provides:
        message = (
            f"train_engine: {component.name} is one process, and the launcher has {workers} workers: set launcher.workers=1, or take "
            "a train engine of several, as fsdp"
        )
        raise UserError(message)
