"""What a conformance class declares is checked when it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from core_rl.errors import UserError


def check_declared(
    cls: type[Any], *, fixed: frozenset[str], known: Callable[[str], bool], expected_failures: Mapping[str, str]
) -> None:
    """Raises `UserError` where it overrides what is `fixed`, or expects a failure of no check or without a reason."""
    taken = sorted(fixed & set(vars(cls)))
    if taken:
        message = f"{cls.__name__}: {', '.join(taken)} cannot be overridden; see expected_failures"
        raise UserError(message)
    for name, reason in expected_failures.items():
        if not known(name) or not reason.strip():
            message = f"{cls.__name__}.expected_failures: {name!r}: {reason!r} is not a check with a reason"
            raise UserError(message)
