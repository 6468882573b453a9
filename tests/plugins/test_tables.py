"""Tables: a row is a line where programs read, and fits the screen where people do."""

from __future__ import annotations

from core_rl.cli.tables import table_lines

ROWS = [("NAME", "SUMMARY"), ("a", "one two three four five six seven eight")]


def test_one_line_each_where_there_is_no_terminal(monkeypatch) -> None:
    """Nothing is cut or wrapped in a pipe."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: False, raising=False)

    assert table_lines(ROWS) == ["  NAME  SUMMARY", "  a     one two three four five six seven eight"]


def test_the_last_column_is_wrapped_on_a_terminal(monkeypatch) -> None:
    """Under its own column, within the width of the screen."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "34")

    lines = table_lines(ROWS)

    assert lines == ["  NAME  SUMMARY", "  a     one two three four five", "        six seven eight"]
