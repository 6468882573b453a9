"""Small panels, one for each algorithm: the mean over the seeds, and a band from the worst to the best."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

COLUMNS = 6
COLOURS = {"reward/mean": "#0072b2", "eval/rewards/accuracy": "#009e73", "eval/loss": "#d55e00"}


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    drawn = [row for row in rows if any(row["curves"])]
    lines = math.ceil(len(drawn) / COLUMNS)
    figure = Figure(figsize=(2.3 * COLUMNS, 1.75 * lines + 0.5))
    FigureCanvasAgg(figure)
    panels = list(figure.subplots(lines, COLUMNS, squeeze=False).flat)
    for axes, row in zip(panels, drawn, strict=False):
        panel(axes, row)
    for axes in panels[len(drawn) :]:
        axes.axis("off")
    figure.suptitle(
        "blue: training reward, green: held-out pair accuracy, orange: held-out loss; band: worst to best seed", fontsize=9
    )
    figure.tight_layout(rect=(0, 0, 1, 0.985))
    figure.savefig(path, dpi=110)


def panel(axes: Any, row: dict[str, Any]) -> None:
    curves = [curve for curve in row["curves"] if curve]
    points = min(len(curve) for curve in curves)
    steps = [step for step, _ in curves[0][:points]]
    values = [[curve[at][1] for curve in curves] for at in range(points)]
    colour = COLOURS.get(row["measure"], "#555555")
    axes.fill_between(steps, [min(one) for one in values], [max(one) for one in values], color=colour, alpha=0.25, linewidth=0)
    axes.plot(steps, [statistics.fmean(one) for one in values], color=colour, linewidth=1.5)
    axes.set_title(row["name"], fontsize=9)
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if row["measure"] != "eval/loss":
        axes.set_ylim(-0.02, max(1.05, *(1.02 * max(one) for one in values)))
