"""A table on the screen: drawn by rich on a terminal, aligned columns elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text under a title. Nothing is cut where the output is not a terminal."""
    if sys.stdout.isatty():
        _drawn(title, columns, rows)
        return
    widths = [max(len(row[index]) for row in (columns, *rows)) for index in range(len(columns))]
    print(title)
    for row in (columns, *rows):
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _drawn(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    # rich takes 0.1 s to import
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=index < len(columns) - 1, style="cyan" if index == 1 else "")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
