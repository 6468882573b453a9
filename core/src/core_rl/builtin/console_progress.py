"""What the console knows of a run: where it stands, how it went, how long it will take."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping

from core_rl.run.headline import REWARD, headline
from core_rl.run.text import clock, number

_RECENT = 20
"""Steps that the estimate of the remaining time looks back on."""


class Progress:
    """Grows with every logged step. `trend` has the first of the metrics that are shown, step by step."""

    def __init__(self, name: str, total: int, *, begin: int, trend_of: str) -> None:
        self.name = name
        self.total = total
        self.step = begin
        self.last: dict[str, float] = {}
        self.trend: list[float] = []
        self.phase: tuple[str, int, int] | None = None
        self._trend_of = trend_of
        self._held_out: list[float] = []
        self._judged = REWARD
        self._started = time.monotonic()
        self._logged = self._started
        self._durations: list[float] = []

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        now = time.monotonic()
        if step > self.step:  # the evaluation before the first step says nothing of a step's length
            self._durations.append(now - self._logged)
        self._logged, self.step, self.phase = now, step, None
        # an evaluation stays on the screen until the next one
        held = {name: value for name, value in self.last.items() if name.startswith("eval/")}
        self.last = {**held, **metrics}
        if self._trend_of in metrics:
            self.trend.append(metrics[self._trend_of])
        judged = headline(metrics)
        if judged.held_out in metrics:
            self._judged = judged
            self._held_out.append(metrics[judged.held_out])

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._started

    def remaining_s(self) -> float | None:
        """By the mean of the latest steps: evaluations and checkpoints count as they come."""
        if not self._durations:
            return None
        return statistics.fmean(self._durations[-_RECENT:]) * (self.total - self.step)

    def summary(self, status: str, labels: Mapping[str, str]) -> str:
        """The last line: how long it took, and first against last."""
        parts = [f"{status}: step {self.step} of {self.total} in {clock(self.elapsed_s)}"]
        fifth = max(1, len(self.trend) // 5)
        if len(self.trend) > 1:
            first, last = statistics.fmean(self.trend[:fifth]), statistics.fmean(self.trend[-fifth:])
            label = labels.get(self._trend_of, self._trend_of)
            what = "first and last fifth" if fifth > 1 else "first and last step"
            parts.append(f"{label} {number(first)} -> {number(last)} ({what})")
        if len(self._held_out) > 1:
            parts.append(f"held-out {self._judged.word} {number(self._held_out[0])} -> {number(self._held_out[-1])}")
        return "; ".join(parts)
