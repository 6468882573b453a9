"""Did you mean … ?"""

from __future__ import annotations

from collections.abc import Iterable


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a slip of the finger most likely meant."""
    import difflib

    spelled = {candidate.lower().replace("-", "_"): candidate for candidate in known}
    found = difflib.get_close_matches(name.lower().replace("-", "_"), spelled, n=1, cutoff=0.6)
    return spelled[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'grpo'?`, or nothing."""
    match = closest(name, known)
    return f"; did you mean {match!r}?" if match else ""
