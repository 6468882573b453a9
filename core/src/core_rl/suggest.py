"""Did you mean … ?"""

from __future__ import annotations

from collections.abc import Iterable

_FITS_A_LINE = 16


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that a slip of the finger most likely meant; case, hyphens and underscores are one."""
    import difflib

    spelled = {name.lower().replace("-", "_"): name for name in known}
    slip = word.lower().replace("-", "_")
    found = difflib.get_close_matches(slip, spelled, n=5, cutoff=0.6)
    swapped = [name for name in found if sorted(name) == sorted(slip)]  # the same letters in another order: the likeliest slip
    best = swapped or found
    return spelled[best[0]] if best else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A clause for the end of a message: the nearest name, else all of them when they are few, else nothing."""
    names = list(known)
    guess = nearest(word, names)
    if guess is not None:
        return f"; did you mean `{guess}`?"
    return f"; known: {', '.join(names)}" if names and len(names) <= _FITS_A_LINE else ""
