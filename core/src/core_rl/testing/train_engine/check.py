"""A check: a function of a `Trial`, what it rests on, and what the engine must provide for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import attrs

Ranks = Literal["any", "several", "others"]
"""Where a check says something: always, on at least two ranks, or in a suite that has other numbers of ranks."""

if TYPE_CHECKING:
    from core_rl.testing.train_engine.trial import Trial


@attrs.frozen(kw_only=True)
class Check:
    """The function's name is the check's, and its docstring says what holds.

    `after` are checks without which this one says nothing: where one of them fails, this one is not judged, so that one fault of an
    engine is one failure. `needs` are capabilities. `every_model`: on all models of the suite, not only on the first.
    """

    name: str
    about: str
    run: Callable[[Trial], None]
    after: tuple[str, ...] = ()
    needs: frozenset[str] = frozenset()
    every_model: bool = False
    ranks: Ranks = "any"


def check(
    *, after: tuple[Check, ...] = (), needs: tuple[str, ...] = (), every_model: bool = False, ranks: Ranks = "any"
) -> Callable[[Callable[[Trial], None]], Check]:
    """Makes a check of a function."""

    def decorate(function: Callable[[Trial], None]) -> Check:
        return Check(
            name=function.__name__,
            about=(function.__doc__ or "").strip(),
            run=function,
            after=tuple(one.name for one in after),
            needs=frozenset(needs),
            every_model=every_model,
            ranks=ranks,
        )

    return decorate
