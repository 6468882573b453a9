"""A check: a sentence that holds of every component of a kind, and how to see it. Nothing here knows pytest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from core_rl.testing.kit.subject import Subject


@attrs.frozen(kw_only=True)
class Check:
    """`run` raises `UnmetError`, whose words are what is wrong and what was expected. Its name is the check's, its docstring what holds."""

    run: Callable[[Subject], None]
    provides: str | None = None
    """A capability; a component that does not provide it is spared."""

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def about(self) -> str:
        return " ".join((self.run.__doc__ or "").split())


class UnmetError(AssertionError):
    """A check is not met; its words are what is wrong. An `AssertionError` of any other class is the component's own."""


class NotJudgedError(Exception):
    """This check says nothing of this component; its words are why."""


def checks(*functions: Callable[[Subject], None]) -> dict[str, Check]:
    """By name, in this order."""
    return {function.__name__: Check(run=function) for function in functions}


def expect(holds: object, words: str) -> None:
    """Raises `UnmetError` with these words where it does not hold."""
    if not holds:
        raise UnmetError(words)


def not_judged(why: str) -> None:
    raise NotJudgedError(why)


def shown(value: Any, limit: int = 120) -> str:
    """A value on one line that is not too long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)
