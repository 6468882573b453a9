"""Where the time of a step goes: `with clock("train"): …` adds to `time/train`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class Clock:
    """Seconds by phase since it was made. Phases may recur; they are not nested."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._phases: dict[str, float] = {}

    @contextlib.contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._phases[phase] = self._phases.get(phase, 0.0) + time.perf_counter() - begin

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self._start

    def metrics(self) -> dict[str, float]:
        """`time/<phase>` for every phase, and `time/step`, all in seconds."""
        return {**{f"time/{phase}": seconds for phase, seconds in self._phases.items()}, "time/step": self.elapsed}
