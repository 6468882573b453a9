"""Which checks a kind has, and what comes of them, with or without pytest."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import attrs

from core_rl.errors import UserError
from core_rl.testing.kit.check import Check, NotJudgedError, UnmetError, not_judged
from core_rl.testing.kit.limit import OutOfTimeError, ends_within

if TYPE_CHECKING:
    from core_rl.testing.kit.subject import Subject

Status = Literal["ok", "failed", "not judged"]
ENGINES = frozenset({"train_engine", "rollout_engine"})
"""Their suites start workers or servers, and run as test classes: `core_rl.testing.train_engines`, `core_rl.testing.rollout_engines`."""

_ABOUT_OPTIONS = frozenset({"listed", "listing_changes_nothing", "options_class", "options_accepted", "capability_names"})
"""What is judged whatever the options are."""


@attrs.frozen(kw_only=True)
class Outcome:
    """`reason`: what is wrong, or why it was not judged; one line or more."""

    check: str
    status: Status
    reason: str = ""
    about: str = ""
    """What holds, in a sentence."""
    error: BaseException | None = None


def shared_checks() -> Mapping[str, Check]:
    """Those of every kind."""
    from core_rl.testing.kit import shared, shared_listing

    return {**shared_listing.CHECKS, **shared.CHECKS}


def own_checks(kind: str) -> Mapping[str, Check]:
    """Those of one kind alone."""
    if kind in ENGINES:
        return {}
    found: Mapping[str, Check] = importlib.import_module(f"core_rl.testing.kinds.{kind}").CHECKS
    return found


def all_checks(kind: str) -> Mapping[str, Check]:
    return {**shared_checks(), **own_checks(kind)}


def outcome(check: Check, subject: Subject, *, limit_s: float | None = None) -> Outcome:
    """Whatever the component raises is what is wrong with it; also that it does not end."""
    about, name = check.about, check.name
    try:
        if check.provides is not None and check.provides not in subject.component.provides:
            not_judged(f"it does not provide {check.provides}")
        with ends_within(limit_s):
            if name not in _ABOUT_OPTIONS:
                _read_options(subject)
            check.run(subject)
    except NotJudgedError as error:
        return Outcome(check=name, status="not judged", reason=str(error), about=about)
    except (UnmetError, OutOfTimeError) as error:
        return Outcome(check=name, status="failed", reason=str(error), about=about, error=error)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - someone else's component: whatever it raises is a finding
        return Outcome(check=name, status="failed", reason=f"it raised {_origin(error)}", about=about, error=error)
    return Outcome(check=name, status="ok", about=about)


def _read_options(subject: Subject) -> None:
    try:
        subject.selection  # noqa: B018 - reading them raises what is wrong
    except UserError as error:
        message = f"its options are refused: {error}"
        raise NotJudgedError(message) from error


def outcomes(subject: Subject, *, limit_s: float | None = None) -> Iterator[Outcome]:
    """All checks of its kind, one after the other, each within `limit_s`."""
    for check in all_checks(subject.kind).values():
        yield outcome(check, subject, limit_s=limit_s)


def _origin(error: BaseException) -> str:
    """The error, and the last line of code that it came through."""
    where: Any = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    place = "" if where is None else f" ({where.tb_frame.f_code.co_filename}:{where.tb_lineno})"
    return f"{type(error).__name__}: {str(error).strip()}{place}"
