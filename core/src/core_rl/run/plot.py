"""A run as one picture: reward (offline: loss) in training and on held-out rows. Needs matplotlib (`core-rl[plot]`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core_rl.errors import UserError
from core_rl.run.charts import smoothed
from core_rl.run.headline import headline
from core_rl.run.record import RunRecord, first_and_last


def plot_run(run_dir: Path, out_png: Path) -> Path:
    """Draw the picture and return its path.

    Raises:
        UserError: matplotlib is not installed, or the run logged neither.
    """
    record = RunRecord.read(run_dir)
    judged = headline(record.names)
    values, held_out = record.series(judged.train), record.series(judged.held_out)
    if not values:
        message = (
            f"{run_dir}: there is no reward or loss in metrics.jsonl to plot; a run needs the logger jsonl and a step or more"
        )
        raise UserError(message)
    figure, axes = _canvas(panels=2 if held_out else 1)
    _train_panel(axes[0], values, judged.word)
    if held_out:
        _held_out_panel(axes[1], held_out, judged.word)
    figure.suptitle(str(record.manifest.get("name", run_dir.name)))
    figure.tight_layout()
    out_png.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out_png, dpi=130)
    return out_png


def _canvas(panels: int) -> tuple[Any, Any]:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        message = "a plot needs matplotlib: pip install 'core-rl[plot]'"
        raise UserError(message) from error
    figure = Figure(figsize=(5.2 * panels, 3.8))
    FigureCanvasAgg(figure)  # no display and no global state
    return figure, figure.subplots(1, panels, squeeze=False)[0]


def _train_panel(axes: Any, series: list[tuple[float, float]], word: str) -> None:
    steps, values = zip(*series, strict=True)
    axes.plot(steps, values, color="#0072b2", alpha=0.3, linewidth=1, label="step")
    axes.plot(steps, [value for _, value in smoothed(series)], color="#0072b2", linewidth=2, label="mean around it")
    ends = first_and_last(series)
    assert ends is not None
    axes.set_title(f"training {word}: {ends[0]:.3f} → {ends[1]:.3f} (first and last fifth)", fontsize=10)
    axes.legend(frameon=False, loc="lower right")
    _finish(axes)


def _held_out_panel(axes: Any, held_out: list[tuple[float, float]], word: str) -> None:
    steps, values = zip(*held_out, strict=True)
    axes.plot(steps, values, color="#d55e00", linewidth=2, marker="o")
    for step, value in (held_out[0], held_out[-1]):
        axes.annotate(f"{value:.3f}", (step, value), textcoords="offset points", xytext=(0, 8), ha="center", fontsize=9)
    axes.set_title(f"held-out {word}: {values[0]:.3f} before, {values[-1]:.3f} after", fontsize=10)
    axes.margins(0.1)
    _finish(axes)


def _finish(axes: Any) -> None:
    axes.set_xlabel("step")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
