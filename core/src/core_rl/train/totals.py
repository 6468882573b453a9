"""What a step adds up over its micro-batches."""

from __future__ import annotations

import torch

from core_rl.roles.train import LossOutput


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

    def metrics(self) -> dict[str, float]:
        """Total sum over total count; a metric that counted nothing is left out."""
        counts = {name: float(count) for name, count in self._counts.items()}
        means = {name: float(self._sums[name]) / count for name, count in counts.items() if count}
        return means | {name: float(value) for name, value in self._maxima.items()}
