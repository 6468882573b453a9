"""What goes away says so for one minor version: deprecated in 0.3, it warns in every 0.3.x and is gone in 0.4.

A test fails when something outlives its minor version.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_TOLD: set[tuple[str, str, int]] = set()


class CoreRLDeprecationWarning(FutureWarning):
    """A use of something that the next minor version does not have. Python shows it to users, unlike DeprecationWarning."""


def deprecated(name: str, *, since: str, instead: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Mark a function: each place that calls it is warned once.

    `name` is what callers write, `since` the minor version that began to warn (`0.3`), `instead` what they should write.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            warn_deprecated(name, since=since, instead=instead, stacklevel=3)
            return function(*args, **kwargs)

        return call

    return decorate


def warn_deprecated(name: str, *, since: str, instead: str, stacklevel: int = 2) -> None:
    """The same for an argument, an option, a class: call it where the use is seen.

    `stacklevel` counts as in `warnings.warn`: 2 is whoever called the function that calls this.
    """
    frame = sys._getframe(stacklevel - 1)  # noqa: SLF001 - documented, and what `warnings` does itself
    place = (name, frame.f_code.co_filename, frame.f_lineno)
    if place in _TOLD:
        return
    _TOLD.add(place)
    message = f"{name} is deprecated since core-rl {since} and gone in {removed_in(since)}: use {instead}"
    warnings.warn(message, CoreRLDeprecationWarning, stacklevel=stacklevel)


def removed_in(since: str) -> str:
    """The minor version after the one that began to warn."""
    major, minor = since.split(".")
    return f"{major}.{int(minor) + 1}"
