"""The console on a terminal: a panel at the bottom that is redrawn, and tables of completions that scroll away above it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel as Frame
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from core_rl.builtin.console import LABELS, chosen, times, verdict
from core_rl.run.headline import headline
from core_rl.run.text import clock, head, number, sparkline, tail, visible, without_markers

if TYPE_CHECKING:
    from rich.console import RenderableType

    from core_rl.builtin.console_progress import Progress

_CELL = 400
"""Characters of a prompt or completion in a table; the cell wraps them."""


class Panel:
    """What goes wrong and what plugins print appears above the panel: rich takes standard output and error meanwhile."""

    def __init__(self, folder: str, metrics: Sequence[str], width: int | None) -> None:
        self._folder = folder
        self._metrics = metrics
        self._console = Console(width=width, highlight=False)
        self._progress: Progress | None = None
        # the clock has to go on while an engine computes; twice a second costs nothing beside it
        self._live = Live(console=self._console, get_renderable=self._render, refresh_per_second=2, transient=True)

    def start(self) -> None:
        self._console.print(Text(f"run folder: {self._folder}"), soft_wrap=True)
        self._live.start()

    def step(self, progress: Progress, metrics: Mapping[str, float]) -> None:
        self._progress = progress
        judged = headline(metrics)
        if judged.held_out in metrics:
            line = f"step {progress.step}: held-out {judged.word} {number(metrics[judged.held_out])}"
            self._console.print(Text(line, style="cyan"))
        self._live.refresh()

    def phase(self, progress: Progress) -> None:
        self._progress = progress

    def samples(self, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
        table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, expand=True, pad_edge=False)
        table.add_column("prompt", ratio=2, overflow="fold")
        table.add_column("completion", ratio=3, overflow="fold")
        table.add_column("reward", overflow="fold", max_width=24)
        for row in rows:
            prompt, completion = visible(without_markers(row["prompt"])), visible(str(row["completion"]))
            table.add_row(Text(tail(prompt, _CELL // 2)), Text(head(completion, _CELL)), self._colored(row))
        self._console.print(table)

    def close(self, line: str) -> None:
        self._live.stop()
        self._console.print(Text(line), soft_wrap=True)

    def _render(self) -> RenderableType:
        progress = self._progress
        if progress is None:
            return Text("starting: loading the model …", style="dim")
        table = Table.grid(padding=(0, 2), expand=True)
        table.add_column(no_wrap=True)
        table.add_column(ratio=1)
        table.add_column(no_wrap=True, justify="right")
        table.add_row(
            Text(f"step {progress.step}/{progress.total}"),
            ProgressBar(total=max(progress.total, 1), completed=progress.step),
            Text(self._clock_line(progress)),
        )
        rows: list[RenderableType] = [table, self._metrics_line(progress), Text(self._phase_line(progress), style="dim")]
        return Frame(Group(*rows), title=Text(progress.name), title_align="left", box=box.ROUNDED)

    def _clock_line(self, progress: Progress) -> str:
        remaining = progress.remaining_s()
        return clock(progress.elapsed_s) + (f", {clock(remaining)} left" if remaining is not None else "")

    def _metrics_line(self, progress: Progress) -> Columns:
        items: list[RenderableType] = []
        for index, (name, value) in enumerate(chosen(progress.last, self._metrics)):
            item = Text(no_wrap=True).append(LABELS.get(name, name) + " ", style="dim").append(number(value), "bold")
            if index == 0 and len(progress.trend) > 1:
                item.append(" " + sparkline(progress.trend), style="green")
            items.append(item)
        return Columns(items, padding=(0, 3))

    def _phase_line(self, progress: Progress) -> str:
        now = "{} {}/{}".format(*progress.phase) if progress.phase else ""
        last = "  ".join(times(progress.last))
        return "   ".join(part for part in (now, f"last step {last}" if last else "") if part)

    def _colored(self, row: Mapping[str, Any]) -> Text:
        reward = row.get("reward")
        style = "red" if reward is None else "green" if reward > 0 else ""
        return Text(verdict(row, "\n", ""), style=style)
