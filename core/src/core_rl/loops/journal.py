"""All loggers as one. A logger that raises is switched off with one warning; training goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from core_rl.data.sample import Group, Sample
from core_rl.roles.parts import Logger, ProgressLogger, RunInfo


class Journal:
    """Passes every call on to the loggers, in the order of the run file."""

    def __init__(self, loggers: Sequence[tuple[str, Logger]]) -> None:
        self._loggers = list(loggers)

    def start(self, run: RunInfo) -> None:
        self._each(lambda logger: logger.start(run))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._each(lambda logger: logger.log(step, metrics))

    def log_samples(self, step: int, groups: Sequence[Group], *, split: str = "train") -> None:
        rows = [sample_row(sample, split=split) for group in groups for sample in group.samples]
        self._each(lambda logger: logger.log_samples(step, rows))

    def progress(self, phase: str, done: int, total: int) -> None:
        self._each(lambda logger: logger.progress(phase, done, total) if isinstance(logger, ProgressLogger) else None)

    def finish(self, status: Literal["done", "failed", "interrupted"]) -> None:
        self._each(lambda logger: logger.finish(status))

    def _each(self, call: Callable[[Logger], None]) -> None:
        for name, logger in list(self._loggers):
            try:
                call(logger)
            except Exception as error:  # noqa: BLE001 — a plugin's logger must not end a run; what it raised is shown
                self._loggers.remove((name, logger))
                print(f"core-rl: warning: logger {name} is off: {type(error).__name__}: {error}", file=sys.stderr)


def sample_row(sample: Sample, *, split: str) -> dict[str, Any]:
    """One row of the table of completions."""
    return {
        "split": split,
        "id": sample.prompt.id,
        "prompt": sample.prompt_text,
        "completion": sample.completion_text,
        "answer": sample.prompt.answer,
        "reward": sample.reward,
        "rewards": {name: part.value for name, part in sample.reward_parts.items()},
        "errors": {name: part.error for name, part in sample.reward_parts.items() if part.error},
        "finish_reason": sample.finish_reason,
        "tokens": sample.num_generated,
    }
