"""A table on the screen. Plain text, aligned: rich takes as long to import as the rest of `core-rl plugins list` takes to run."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence

_BOLD, _DIM, _PLAIN = "\033[1m", "\033[2m", "\033[0m"
_NARROWEST = 24


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text under a title and the names of the columns."""
    bold, dim, plain = (_BOLD, _DIM, _PLAIN) if sys.stdout.isatty() else ("", "", "")
    head, *lines = table_lines([columns, *rows])
    print(f"{bold}{title}{plain}")
    print(f"{dim}{head}{plain}")
    for line in lines:
        print(line)


def table_lines(rows: Sequence[Sequence[str]], *, indent: str = "  ") -> list[str]:
    """Rows as aligned lines. On a terminal the last column is wrapped; elsewhere every row is one line."""
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    margin = len(indent) + sum(widths) + 2 * len(widths)
    terminal = sys.stdout.isatty()
    room = max(shutil.get_terminal_size().columns - margin, _NARROWEST) if terminal else None
    return [line for row in rows for line in _lines(row, widths, indent, room)]


def _lines(row: Sequence[str], widths: Sequence[int], indent: str, room: int | None) -> Iterator[str]:
    head = indent + "".join(cell.ljust(width + 2) for cell, width in zip(row[:-1], widths, strict=True))
    wrapped = [row[-1]] if room is None else textwrap.wrap(row[-1], room, break_on_hyphens=False) or [""]
    yield (head + wrapped[0]).rstrip()
    for rest in wrapped[1:]:
        yield " " * len(head) + rest
