"""`core-rl config show --explain`: the resolved algorithm on the screen, part by part."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from core_rl.config.show import inline

if TYPE_CHECKING:
    from core_rl.config.explain import Part

_BOLD, _CYAN, _DIM, _PLAIN = "\033[1m", "\033[36m", "\033[2m", "\033[0m"
_GAP = 2
_LEGEND = (
    "i sequence, t token, G group (the samples of a prompt), R reward, A advantage, l loss, H entropy; pi policy, pi_old before the update, mu rollout "
    "engine, r = pi/pi_old, w = pi/mu, rho = pi_old/mu, sg stop-gradient; w_t the aggregation's weight of a token; losses are minimised"
)


def print_parts(parts: Sequence[Part]) -> None:
    """Colours and line breaks are for a terminal; elsewhere every statement is one plain line."""
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else None
    margin = max(len(part.place) for part in parts) + _GAP
    before = 0
    for part in parts:
        lines = list(_lines(part, margin, width, colour=terminal))
        if before and max(before, len(lines)) > 1:  # parts of one line stand together
            print()
        print("\n".join(lines))
        before = len(lines)
    print()
    for line in _wrapped(_LEGEND, 0, width):
        print(f"{_DIM}{line}{_PLAIN}" if terminal else line)


def _lines(part: Part, margin: int, width: int | None, *, colour: bool) -> Iterator[str]:
    bold, cyan, dim, plain = (_BOLD, _CYAN, _DIM, _PLAIN) if colour else ("", "", "", "")
    paper = f"  {dim}arXiv {part.paper}{plain}" if part.paper else ""
    yield f"{dim}{part.place.ljust(margin)}{plain}{bold}{part.name}{plain}{paper}"
    said = ((part.words, ""), (part.formula, cyan), (_options(part.options), dim))
    for text, style in said:
        for line in _wrapped(text, margin, width):
            yield f"{' ' * margin}{style}{line}{plain if style else ''}"


def _wrapped(text: str, margin: int, width: int | None) -> list[str]:
    lines = text.splitlines()
    if width is None:
        return lines
    room = max(width - margin, 24)
    return [piece for line in lines for piece in textwrap.wrap(line, room, subsequent_indent="  ", break_on_hyphens=False)]


def _options(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {inline(value)}" for name, value in options.items())
