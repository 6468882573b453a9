"""Checks of every kind: how a component is built, and what it leaves alone."""

from __future__ import annotations

import importlib
import inspect
import pickle
from collections.abc import Callable, Iterator
from typing import Any

from core_rl.kinds import ROLES
from core_rl.plugins.build import build_worker_form, worker_form
from core_rl.plugins.references import load_reference
from core_rl.testing.kit.check import checks, expect, shown
from core_rl.testing.kit.runner import ENGINES
from core_rl.testing.kit.state import changed, restore, state, stir
from core_rl.testing.kit.subject import Subject

_TRAVELS = frozenset({"loss", "aggregation", "kl_estimator"})
"""Kinds whose objects go to the ranks of a train engine with every step."""


def contract(subject: Subject) -> None:
    """It has every method of its kind's contract, with the arguments that core-rl calls it with."""
    if subject.kind == "algorithm":
        expect(subject.component.target == subject.component.config, "an algorithm's target is its options class")
        return
    built = subject.build()
    for name, wanted in _methods(subject.kind):
        method = getattr(built, name, None)
        expect(callable(method), f"{type(built).__name__} has no method {name} (see {ROLES[subject.kind]})")
        expect(_takes(method, wanted), f"{name}{_signature(method)} cannot be called as {name}{_signature(wanted)}")
        asynchronous = inspect.iscoroutinefunction(wanted)
        expect(not asynchronous or inspect.iscoroutinefunction(method), f"{name} is awaited: write `async def {name}`")


def pickles(subject: Subject) -> None:
    """What a worker process gets of it goes through pickle, and what is built there is the same."""
    form = worker_form(subject.component, subject.settings)
    again = pickle.loads(pickle.dumps(form))  # noqa: S301 - written a moment ago
    expect(again == form, f"its options are other ones after pickle: {shown(form[2])} became {shown(again[2])}")
    if subject.kind == "algorithm":
        return
    built = subject.build()
    if subject.kind not in ENGINES | {"aggregation"}:
        rebuilt = build_worker_form(again)
        expect(
            type(rebuilt) is type(built), f"a worker builds a {type(rebuilt).__name__}, and the driver a {type(built).__name__}"
        )
    if subject.kind in _TRAVELS:
        copy = pickle.loads(pickle.dumps(built))  # noqa: S301
        expect(type(copy) is type(built), f"it goes to workers as it is, and pickle makes a {type(copy).__name__} of it")


def built_twice(subject: Subject) -> None:
    """Building it again gives one more of the same, and leaves its options as they are."""
    before = repr(subject.settings)
    first, second = subject.build(), subject.build()
    expect(type(first) is type(second), f"the first is a {type(first).__name__}, the second a {type(second).__name__}")
    expect(
        repr(subject.settings) == before, f"building it changed its options: {shown(before)} became {shown(subject.settings)}"
    )


def no_global_state(subject: Subject) -> None:
    """Using it leaves the process as it was: random states, default dtype, threads, gradient mode, environment, working directory."""
    use, ahead = _use(subject.kind), state()
    use(subject)  # what is imported for the first time may do as it likes
    restore(ahead)
    stir()  # a component that seeds comes to the same state again and again
    before = state()
    try:
        use(subject)
        found = changed(before, state())
    finally:
        restore(ahead)
    expect(not found, f"it changes {'; '.join(found)}; what it needs of its own it keeps to itself (a torch.Generator, a copy)")


def _use(kind: str) -> Callable[[Subject], Any]:
    """What a kind's own module has as `use`; otherwise it is built."""
    if kind in ENGINES:
        return Subject.build
    found: Callable[[Subject], Any] = getattr(importlib.import_module(f"core_rl.testing.kinds.{kind}"), "use", Subject.build)
    return found


def _methods(kind: str) -> Iterator[tuple[str, Any]]:
    for name, value in vars(load_reference(ROLES[kind])).items():
        if inspect.isfunction(value) and (name == "__call__" or not name.startswith("_")):
            yield name, value


def _takes(method: Any, wanted: Any) -> bool:
    """Whether a call with the contract's arguments, by place and by name, is possible. What has no signature is taken as it is."""
    parameters = list(inspect.signature(wanted).parameters.values())[1:]
    by_name = {one.name: None for one in parameters if one.kind is one.KEYWORD_ONLY}
    by_place = [None for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    try:
        signature = inspect.signature(method)
    except (ValueError, TypeError):
        return True
    try:
        signature.bind(*by_place, **by_name)
    except TypeError:
        return False
    return True


def _signature(function: Any) -> str:
    names = [
        str(one.replace(annotation=one.empty)) for one in inspect.signature(function).parameters.values() if one.name != "self"
    ]
    return f"({', '.join(names)})"


CHECKS = checks(contract, pickles, built_twice, no_global_state)
