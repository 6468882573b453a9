"""Checks of data: `core_rl.roles.parts.Data`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from core_rl.data.records import ROW_KINDS, Conversation, Labelled, Pair
from core_rl.data.sample import Prompt
from core_rl.errors import DataError, UserError
from core_rl.plugins.build import build_component
from core_rl.testing.kit.check import checks, expect, not_judged, shown

if TYPE_CHECKING:
    from core_rl.testing.kit.subject import Subject

_TYPES: dict[str, type[Any]] = {"prompts": Prompt, "conversations": Conversation, "pairs": Pair, "labelled": Labelled}
_SEED = 3
_MOST = 50
"""Rows that are looked at."""


def rows(subject: Subject) -> None:
    """`load` gives rows of the kind that its component provides, at least one; without a word they are prompts."""
    kinds = [kind for kind in ROW_KINDS if kind in subject.component.provides] or ["prompts"]
    wanted = tuple(_TYPES[kind] for kind in kinds)
    loaded = _load(subject)
    expect(len(loaded) > 0, "it has no rows; an empty source raises DataError")
    for index in range(min(_MOST, len(loaded))):
        row = loaded[index]
        names = " or ".join(one.__name__ for one in wanted)
        expect(isinstance(row, wanted), f"row {index} is {shown(row)}, expected a {names} (it provides {', '.join(kinds)})")
        if isinstance(row, Prompt):
            one = (row.messages is None) != (row.text is None)
            expect(one, f"row {index}: a prompt has either messages or text, found {shown(row)}")


def fixed_length(subject: Subject) -> None:
    """Its length is fixed, an index beyond it raises IndexError, and -1 is the last row."""
    loaded = _load(subject)
    count = len(loaded)
    expect(sum(1 for _ in loaded) == count, f"its length is {count}, and another number of rows comes out of it")
    expect(len(loaded) == count, f"its length was {count} and is {len(loaded)} after reading it")
    try:
        beyond = loaded[count]
    except IndexError:
        pass
    else:
        expect(holds=False, words=f"row {count} of {count} is {shown(beyond)}, expected IndexError")
    expect(loaded[-1] == loaded[count - 1], "row -1 is not the last one")


def same_rows(subject: Subject) -> None:
    """With the same seed every load, and every look at a row, gives the same rows in the same order."""
    loaded, again, anew = _load(subject), _load(subject), _data(subject).load("train", _SEED)
    expect(len(loaded) == len(again) == len(anew), f"it has {len(loaded)} rows, then {len(again)}, and {len(anew)} built anew")
    for index in reversed(range(min(_MOST, len(loaded)))):
        same = loaded[index] == loaded[index] == again[index] == anew[index]
        expect(same, f"row {index} differs from one look to the next: {shown(loaded[index])} and {shown(again[index])}")


def both_splits(subject: Subject) -> None:
    """The split `eval` has rows too, the same at every look; or it raises `DataError`, which says what to set."""
    try:
        held_out = _data(subject).load("eval", _SEED)
    except DataError as error:
        expect(str(error).strip(), "load('eval') raised a DataError without a word")
        return
    expect(len(held_out) > 0, "the split `eval` is empty; expected rows or DataError")
    expect(held_out[0] == held_out[0], "row 0 of `eval` differs from one look to the next")


def missing_source(subject: Subject) -> None:
    """A source that is not there raises `DataError` (or another of the user's errors) in words, not a traceback."""
    options = subject.given.get("missing")
    if options is None:
        not_judged("the test class gives no `missing`: options of a source that is not there")
        return
    selection, problems = subject.read({**subject.options, **options})
    if problems or selection is None:
        return
    try:
        loaded = build_component(subject.component, selection.options).load("train", _SEED)
    except UserError as error:
        expect(str(error).strip(), "it raised an error without a word")
        return
    expect(holds=False, words=f"a source that is not there gave {len(loaded)} rows, expected DataError")


def use(subject: Subject) -> None:
    """One row."""
    assert _load(subject)[0] is not None


def _data(subject: Subject) -> Any:
    return subject.build()


def _load(subject: Subject) -> Sequence[Any]:
    loaded: Sequence[Any] = _data(subject).load("train", _SEED)
    return loaded


CHECKS = checks(rows, fixed_length, same_rows, both_splits, missing_source)
