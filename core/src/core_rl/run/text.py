"""Text of models and numbers of runs as a person can read them."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence

_MARKER = re.compile(r"(<\|start_header_id\|>\w+<\|end_header_id\|>|<\|im_start\|>\w+|<\|[^<>|]{1,40}\|>)\s*")
_BARS = "▁▂▃▄▅▆▇█"


def visible(text: str) -> str:
    """On one line, with every control character written out: nothing a model says can act on the terminal."""
    return "".join(_escape(character) for character in text)


def _escape(character: str) -> str:
    if character == "\n":
        return "⏎"
    if character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode()


def head(text: str, width: int) -> str:
    """The beginning, at most `width` characters."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def tail(text: str, width: int) -> str:
    """The end, at most `width` characters."""
    return text if len(text) <= width else "…" + text[len(text) - max(width - 1, 0) :]


def without_markers(prompt: str) -> str:
    """A prompt without the markers of its chat template, which are the same in every row."""
    return _MARKER.sub("\n", prompt).strip()


def number(value: float | None) -> str:
    """A few figures: 0.123, 12.3, 1234, 1.2e-05."""
    if value is None:
        return "failed"
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if value == 0 or 1e-3 <= size < 1e7:
        return f"{value:.{3 if size < 10 else 1 if size < 100 else 0}f}"
    return f"{value:.1e}"


def clock(seconds: float) -> str:
    """`0:42`, `1:02:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """The values as a row of bars, neighbours averaged until they fit. A value that is not finite is a space."""
    if not values:
        return ""
    size = max(1, math.ceil(len(values) / width))
    means = [sum(part) / len(part) for start in range(0, len(values), size) if (part := values[start : start + size])]
    finite = [value for value in means if math.isfinite(value)]
    if not finite:
        return " " * len(means)
    low, high = min(finite), max(finite)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[round((value - low) * scale)] if math.isfinite(value) else " " for value in means)


def for_encoding(text: str, encoding: str) -> str:
    """What a stream of this encoding can carry; the rest is written out."""
    return text.encode(encoding, "backslashreplace").decode(encoding)
