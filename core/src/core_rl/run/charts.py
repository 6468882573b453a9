"""Line charts as inline SVG. Colours come from the page's style sheet, so that they follow its light or dark."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping

from core_rl.run.record import Points
from core_rl.run.text import number

_WIDTH, _HEIGHT = 460, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 10, 10, 24
_MOST_POINTS = 240
COLOURS = 6


def line_chart(series: Mapping[str, Points]) -> str:
    """One line for each series over the steps; a single noisy one is drawn faint under its mean."""
    drawn = {label: thinned(points) for label, points in series.items() if points}
    if not drawn:
        return ""
    frame = _Frame(drawn)
    body = [frame.grid()]
    for index, (label, points) in enumerate(drawn.items()):
        colour = index % COLOURS
        if len(drawn) == 1 and len(points) >= 8:
            body += [frame.line(points, colour, "raw"), frame.line(smoothed(points), colour, "mean")]
        else:
            body.append(frame.line(points, colour, "mean"))
        body.append(frame.dots(label, points, colour, shown=len(points) <= 12))
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(body)}</svg>{_legend(list(drawn))}'


def smoothed(points: Points) -> Points:
    """Means over a window around each point, a tenth of the series wide and at least five points; narrower at both ends."""
    reach = max(2, len(points) // 20)
    result: Points = []
    for index, (x, _) in enumerate(points):
        near = min(reach, index, len(points) - 1 - index)
        window = [y for _, y in points[index - near : index + near + 1]]
        result.append((x, sum(window) / len(window)))
    return result


def thinned(points: Points) -> Points:
    """At most as many points as a chart is wide: means over neighbours."""
    size = math.ceil(len(points) / _MOST_POINTS)
    parts = [points[start : start + size] for start in range(0, len(points), size)] if size > 1 else []
    return [(sum(x for x, _ in part) / len(part), sum(y for _, y in part) / len(part)) for part in parts] or points


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round numbers that span an interval."""
    raw = (high - low) / count
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]


class _Frame:
    """From data to pixels."""

    def __init__(self, series: Mapping[str, Points]) -> None:
        xs = [x for points in series.values() for x, _ in points]
        ys = [y for points in series.values() for _, y in points]
        self._x = _widened(min(xs), max(xs), 0.0)
        self._y = _widened(min(ys), max(ys), 0.05)

    def grid(self) -> str:
        lines = [
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_tick(value)}</text>'
            for value, y in ((value, self._at_y(value)) for value in ticks(*self._y))
        ]
        steps = [
            f'<text x="{self._at_x(value)}" y="{_HEIGHT - 6}" text-anchor="middle">{int(value)}</text>'
            for value in ticks(*self._x)
            if value == int(value)
        ]
        return "".join(lines + steps)

    def line(self, points: Points, colour: int, kind: str) -> str:
        path = " ".join(f"{self._at_x(x)},{self._at_y(y)}" for x, y in points)
        return f'<polyline class="{kind} c{colour}" points="{path}"/>'

    def dots(self, label: str, points: Points, colour: int, *, shown: bool) -> str:
        """A value to read under the pointer; the dots are drawn only where they are few."""
        name, kind = html.escape(label), "dot" if shown else "spot"
        return "".join(
            f'<circle class="{kind} c{colour}" cx="{self._at_x(x)}" cy="{self._at_y(y)}" r="{3 if shown else 5}">'
            f"<title>step {x:g} · {name} {number(y)}</title></circle>"
            for x, y in points
        )

    def _at_x(self, value: float) -> float:
        low, high = self._x
        return round(_LEFT + (value - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT), 1)

    def _at_y(self, value: float) -> float:
        low, high = self._y
        return round(_HEIGHT - _BOTTOM - (value - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM), 1)


def _widened(low: float, high: float, margin: float) -> tuple[float, float]:
    """An interval that is not empty, with some air."""
    if high - low <= 1e-12 * max(abs(low), abs(high), 1e-12):
        return low - (abs(low) * 0.1 or 0.5), high + (abs(high) * 0.1 or 0.5)
    return low - margin * (high - low), high + margin * (high - low)


def _tick(value: float) -> str:
    return "0" if abs(value) < 1e-15 else f"{value:.4g}"


def _legend(labels: list[str]) -> str:
    if len(labels) < 2:
        return ""
    items = "".join(
        f'<span><i class="b{index % COLOURS}"></i>{html.escape(label)}</span>' for index, label in enumerate(labels)
    )
    return f'<div class="legend">{items}</div>'
