"""The logger that a person watches: a live panel on a terminal, one line for each step elsewhere.

A terminal that has only ASCII gets the lines too.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from core_rl.builtin.console_progress import Progress
from core_rl.run.text import clock, for_encoding, head, number, tail, visible, without_markers

if TYPE_CHECKING:
    from core_rl.builtin.config import ConsoleConfig
    from core_rl.roles.parts import RunInfo

LABELS = {
    "reward/mean": "reward",
    "eval/reward/mean": "held-out reward",
    "eval/loss": "held-out loss",
    "eval/rewards/accuracy": "held-out accuracy",
    "optim/grad_norm": "grad norm",
    "entropy/mean": "entropy",
    "len/completion_mean": "length",
    "perf/tok_s": "tok/s",
}
"""Short names of metrics; any other is shown under its own."""

_PHASES = ("rollout", "logprob", "train", "sync")


class Display(Protocol):
    """How the console writes: `Plain` here, `Panel` in its own module."""

    def start(self) -> None: ...

    def step(self, progress: Progress, metrics: Mapping[str, float]) -> None: ...

    def phase(self, progress: Progress) -> None: ...

    def samples(self, title: str, rows: Sequence[Mapping[str, Any]]) -> None: ...

    def close(self, line: str) -> None: ...


class Console:
    """Keeps what is to be shown and leaves the drawing to a display."""

    def __init__(self, options: ConsoleConfig) -> None:
        self._options = options
        self._progress: Progress | None = None
        self._display: Display | None = None

    def start(self, run: RunInfo) -> None:
        first = self._options.metrics[0] if self._options.metrics else "reward/mean"
        self._progress = Progress(run.name, run.total_steps, begin=run.resumed_from or 0, trend_of=first)
        self._display = self._make_display(str(run.dir))
        self._display.start()

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        assert self._progress is not None
        assert self._display is not None
        self._progress.log(step, metrics)
        self._display.step(self._progress, metrics)

    def progress(self, phase: str, done: int, total: int) -> None:
        assert self._progress is not None
        assert self._display is not None
        self._progress.phase = (phase, done, total)
        self._display.phase(self._progress)

    def log_samples(self, step: int, rows: Sequence[Mapping[str, Any]]) -> None:
        if self._display is not None and rows and self._options.samples:
            split = " on held-out prompts" if rows[0].get("split") == "eval" else ""
            self._display.samples(f"step {step}: completions{split}", spread(rows, self._options.samples))

    def finish(self, status: Literal["done", "failed", "interrupted"]) -> None:
        if self._display is not None and self._progress is not None:
            self._display.close(self._progress.summary(status, LABELS))
            self._display = None

    def _make_display(self, folder: str) -> Display:
        if sys.stdout.isatty() and (sys.stdout.encoding or "").lower().startswith("utf"):
            from core_rl.builtin.console_panel import Panel  # rich takes 0.1 s to import

            return Panel(folder, self._options.metrics, self._options.width)
        return Plain(folder, self._options.metrics, self._options.width)


class Plain:
    """Lines of text on standard output, for files and pipes."""

    def __init__(self, folder: str, metrics: Sequence[str], width: int | None) -> None:
        self._folder = folder
        self._metrics = metrics
        self._width = width or 120

    def start(self) -> None:
        _print(f"run folder: {self._folder}")

    def step(self, progress: Progress, metrics: Mapping[str, float]) -> None:
        parts = [f"{LABELS.get(name, name)} {number(value)}" for name, value in chosen(metrics, self._metrics)]
        _print("  ".join([f"step {progress.step}/{progress.total}", *parts, *times(metrics), *_eta(progress)]))

    def phase(self, progress: Progress) -> None:
        """A line for each phase would bury the steps."""

    def samples(self, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
        _print(title)
        for row in rows:
            prompt, completion = (visible(str(text)) for text in (without_markers(row["prompt"]), row["completion"]))
            _print(f"  {tail(prompt, self._width)}\n    -> {head(completion, self._width)}\n    reward {verdict(row)}")

    def close(self, line: str) -> None:
        _print(line)


def chosen(metrics: Mapping[str, float], names: Sequence[str]) -> list[tuple[str, float]]:
    """The metrics to show that this step has, in the order asked for."""
    return [(name, metrics[name]) for name in names if name in metrics]


def times(metrics: Mapping[str, float]) -> list[str]:
    """`3.3s (rollout 1.9 train 1.2)`: the step and the phases that took a part worth showing; then the evaluation."""
    shown: list[str] = []
    step = metrics.get("time/step")
    if step is not None:
        named = [(phase, metrics.get(f"time/{phase}", 0.0)) for phase in _PHASES]
        large = " ".join(f"{phase} {seconds:.1f}" for phase, seconds in named if seconds >= 0.02 * step)
        shown.append(f"{step:.1f}s ({large})" if large else f"{step:.1f}s")
    if "time/eval" in metrics:
        shown.append(f"eval {metrics['time/eval']:.1f}s")
    return shown


def verdict(row: Mapping[str, Any], opening: str = " (", closing: str = ")") -> str:
    """A sample's reward, and its parts where there are several or one failed."""
    parts: Mapping[str, Any] = row.get("rewards") or {}
    text = number(row.get("reward"))
    if len(parts) > 1 or None in parts.values():
        between = opening if opening.strip() == "" else ", "
        text += opening + between.join(f"{name} {number(value)}" for name, value in parts.items()) + closing
    return text


def spread(rows: Sequence[Mapping[str, Any]], count: int) -> list[Mapping[str, Any]]:
    """So many rows, from beginning to end: neighbours are samples of one prompt."""
    if len(rows) <= count:
        return list(rows)
    return [rows[index * len(rows) // count] for index in range(count)]


def _eta(progress: Progress) -> list[str]:
    remaining = progress.remaining_s()
    return [] if remaining is None else [f"{clock(remaining)} left"]


def _print(text: str) -> None:
    print(for_encoding(text, sys.stdout.encoding or "utf-8"), flush=True)
