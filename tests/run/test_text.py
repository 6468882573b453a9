"""Text for terminals."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core_rl.run.text import clock, for_encoding, head, number, sparkline, tail, visible, without_markers


@given(st.text())
def test_nothing_visible_acts_on_a_terminal(text):
    """No control, format or surrogate character is left, and everything is on one line."""
    shown = visible(text)

    assert all(c.isprintable() or unicodedata.category(c) == "Zs" for c in shown)
    assert not set(shown) & {"\x1b", "\n", "\r", "\b", "\x9b", "\u202e", "\u200b", "\u2028"}
    shown.encode()


@given(st.text(max_size=50), st.integers(1, 60))
def test_cut_texts_fit(text, width):
    """Beginning and end, never longer than asked."""
    assert len(head(text, width)) <= width
    assert len(tail(text, width)) <= width
    assert len(text) > width or head(text, width) == tail(text, width) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0.000"), (0.12345, "0.123"), (12.34, "12.3"), (512.3, "512"), (12345.6, "12346"), (1e-5, "1.0e-05"), (-2.5, "-2.500"),
     (3e9, "3.0e+09"), (float("nan"), "nan"), (None, "failed")],
)  # fmt: skip
def test_numbers(value, text):
    """A few figures."""
    assert number(value) == text


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (42.4, "0:42"), (59.6, "1:00"), (3723, "1:02:03")])
def test_clock(seconds, text):
    """Hours only where there are some."""
    assert clock(seconds) == text


def test_sparkline():
    """Lowest and highest bar for lowest and highest value, never wider than asked, a gap where nothing is known."""
    nan = float("nan")

    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([1.0, 1.0]) == "▁▁"
    assert sparkline([0.0, nan, 1.0]) == "▁ █"
    assert sparkline([nan]) == " "
    assert sparkline([]) == ""
    assert len(sparkline(list(range(1000)), width=24)) <= 24


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("<|im_start|>user\n1 + 2 =<|im_end|>\n<|im_start|>assistant\n", "1 + 2 ="),
        ("<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", "Hi"),
        ("2 < 3 | 4 > 1", "2 < 3 | 4 > 1"),
    ],
)  # fmt: skip
def test_template_markers_are_left_out(prompt, text):
    """They are the same in every row of a table."""
    assert without_markers(prompt) == text


def test_a_poor_terminal_gets_what_it_can_show():
    """ASCII only: the rest is written out."""
    assert for_encoding("a → b", "ascii") == "a \\u2192 b"
    assert for_encoding("a → b", "utf-8") == "a → b"
