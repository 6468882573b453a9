"""What a step adds up over its micro-batches."""

from __future__ import annotations

from typing import Any

import torch

from core_rl.roles.train import LossOutput, StepReport


class Totals:
    """The loss; metrics as sums and counts; maxima. Stays on the device until asked."""

    def __init__(self) -> None:
        self.loss = torch.zeros(())
        self._sums: dict[str, torch.Tensor] = {}
        self._counts: dict[str, torch.Tensor] = {}
        self._maxima: dict[str, torch.Tensor] = {}

    def add(self, loss: torch.Tensor, output: LossOutput) -> None:
        self.loss = self.loss.to(loss.device) + loss
        for name, (total, count) in output.metrics.items():
            self._sums[name] = self._sums[name] + total if name in self._sums else total
            self._counts[name] = self._counts[name] + count if name in self._counts else count
        for name, value in output.maxima.items():
            self._maxima[name] = self._maxima[name].maximum(value) if name in self._maxima else value

    def gather(self, group: Any = None) -> None:
        """With those of the group's other ranks (None: all): sums and counts added, maxima compared. The same on every rank afterwards."""
        import torch.distributed as dist

        mine = [{name: float(value) for name, value in part.items()} for part in (self._sums, self._counts, self._maxima)]
        parts: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(parts, (float(self.loss), mine), group=group)
        others = Totals()
        others.loss = torch.tensor(sum(loss for loss, _ in parts), dtype=torch.float64)
        for _, (sums, counts, maxima) in parts:
            metrics = {name: (torch.tensor(total), torch.tensor(counts[name])) for name, total in sums.items()}
            highest = {name: torch.tensor(value) for name, value in maxima.items()}
            others.add(torch.zeros(()), LossOutput(values=torch.zeros(()), metrics=metrics, maxima=highest))
        self.__dict__.update(others.__dict__)

    def report(
        self, *, lr: float, grad_norm: float = 0.0, num_tokens: int = 0, num_micro_batches: int = 0, skipped: bool = False
    ) -> StepReport:
        """What the step tells; without anything added, that there was nothing to learn from."""
        return StepReport(
            loss=float(self.loss),
            grad_norm=grad_norm,
            lr=lr,
            num_tokens=num_tokens,
            num_micro_batches=num_micro_batches,
            skipped=skipped,
            metrics=self.metrics(),
        )

    def metrics(self) -> dict[str, float]:
        """Total sum over total count; a metric that counted nothing is left out."""
        counts = {name: float(count) for name, count in self._counts.items()}
        means = {name: float(self._sums[name]) / count for name, count in counts.items() if count}
        return means | {name: float(value) for name, value in self._maxima.items()}
