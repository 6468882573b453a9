"""Answers that need no algebra: plain numbers and plain words. Most are, and these take microseconds."""

from __future__ import annotations

import itertools
import re
from fractions import Fraction

import attrs

MAX_ANSWER_CHARS = 500
MAX_DEPTH = 12

_NUMBER = re.compile(
    r"(?P<sign>[-+]?)(?P<whole>\d{1,3}(?:,\d{3})+|\d*)(?P<decimals>\.\d*)?(?:[eE](?P<exponent>[-+]?\d{1,3}))?"
    r"(?:/(?P<below>[1-9]\d*))?(?P<percent>%?)"
)
_NOISE = re.compile(r"\\text(?:bf|rm)?\s*\{([^{}]*)\}|\\math(?:rm|bf)\s*\{([^{}]*)\}")
_WORDS = re.compile(r"[^\W\d_]{2,}(?:[\s'-]+[^\W\d_]+)*")
_TOWER = re.compile(r"(?:\^|\*\*)[\s{(]*[^\s{}()^*]*[\s})]*(?:\^|\*\*)|(?:\^|\*\*)[\s{(]*-?\d{5,}|\d{5,}\s*!|!\s*\)?\s*!")


@attrs.frozen
class Number:
    """A number as it was written. `percent` if a percent sign stood behind it; the sign is not in the value."""

    value: Fraction
    percent: bool

    def equals(self, reference: Number, tolerance: float) -> bool:
        """A percent sign on one side only means either reading: 50% is 50 and 0.5."""
        if self.percent == reference.percent:
            return _close(self.value, reference.value, tolerance)
        if self.percent:
            return any(_close(value, reference.value, tolerance) for value in (self.value, self.value / 100))
        return any(_close(self.value, value, tolerance) for value in (reference.value, reference.value / 100))


def tidy(text: str) -> str:
    """Without the dressing that changes no answer: dollar signs, text commands, thin spaces, a full stop."""
    text = _NOISE.sub(lambda match: f" {match.group(1) or match.group(2) or ''} ", text)
    for noise, plain in (("\u2212", "-"), ("\\$", ""), ("$", ""), ("\\%", "%"), ("\\,", ""), ("\\!", ""), ("{,}", ",")):
        text = text.replace(noise, plain)
    return text.strip().removesuffix(".").strip()


def as_number(text: str) -> Number | None:
    """`1,234.50`, `-3/4`, `12 %`, `1e-3`. None for anything with more to it."""
    match = _NUMBER.fullmatch(tidy(text).replace(" ", ""))
    if match is None or not (match["whole"] or (match["decimals"] or ".") != "."):
        return None
    whole, decimals = match["whole"].replace(",", "") or "0", (match["decimals"] or "").removeprefix(".")
    value = Fraction(int(whole + decimals), 10 ** len(decimals)) * Fraction(10) ** int(match["exponent"] or 0)
    value /= int(match["below"] or 1)
    return Number(-value if match["sign"] == "-" else value, bool(match["percent"]))


def as_words(text: str) -> str | None:
    """Plain words, to be compared as text: algebra would call `Paris` and `pairs` the same product of letters."""
    words = " ".join(tidy(text).split())
    return words.casefold() if _WORDS.fullmatch(words) else None


def unwieldy(text: str) -> str | None:
    """Why algebra is not tried on this: it would take for ever. None if it may be."""
    if len(text) > MAX_ANSWER_CHARS:
        return f"longer than {MAX_ANSWER_CHARS} characters"
    depth = itertools.accumulate((character in "({[") - (character in ")}]") for character in text)
    if max(depth, default=0) > MAX_DEPTH:
        return f"nested deeper than {MAX_DEPTH}"
    return "a power or factorial beyond any answer" if _TOWER.search(text) else None


def _close(value: Fraction, reference: Fraction, tolerance: float) -> bool:
    if value.denominator == 1 and reference.denominator == 1:
        return value == reference
    return abs(value - reference) <= Fraction(tolerance) * abs(reference)
