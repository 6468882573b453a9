"""Did you mean … ?"""

from __future__ import annotations

from collections.abc import Iterable

_A_LINE = 16


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a slip of the finger most likely meant."""
    import difflib

    spelled = {candidate.lower().replace("-", "_"): candidate for candidate in known}
    found = difflib.get_close_matches(name.lower().replace("-", "_"), spelled, n=1, cutoff=0.6)
    return spelled[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A clause to add to a message: the nearest name, else all of them when a line holds them."""
    names = list(known)
    match = closest(name, names)
    if match is not None:
        return f"; did you mean `{match}`?"
    return f"; there are: {', '.join(names)}" if names and len(names) <= _A_LINE else ""
