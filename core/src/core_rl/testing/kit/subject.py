"""What is put to the test: a component of a kind, with its options, as a run file would select it."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from core_rl.config.lookup import Lookup
from core_rl.config.tree import INVALID, Origin, from_python
from core_rl.config.walk import Owner, Walker
from core_rl.errors import Problem, UserError
from core_rl.plugins.build import build_component
from core_rl.plugins.catalogue import Catalogue
from core_rl.plugins.selectors import ALLOW_VARIABLE, BLOCK_VARIABLE

if TYPE_CHECKING:
    from core_rl.component import Component
    from core_rl.config.selection import Selection

T = TypeVar("T")
MAX_NEW_TOKENS = 16
"""The longest completion that aggregations are told of."""


@attrs.define(kw_only=True, eq=False)
class Subject:
    """`given` is what a test class says beside the options: samples of a reward, prompts of a workflow, …"""

    kind: str
    name: str
    options: Mapping[str, Any] = attrs.field(factory=dict)
    given: Mapping[str, Any] = attrs.field(factory=dict)
    _stack: contextlib.ExitStack = attrs.field(factory=contextlib.ExitStack, init=False)
    _kept: dict[Any, Any] = attrs.field(factory=dict, init=False)

    @property
    def component(self) -> Component:
        return catalogue().find(self.kind, self.name).component

    @property
    def selection(self) -> Selection:
        """Raises `UserError` with every mistake in the options, as a run file with them would."""
        if "selection" not in self._kept:
            found, problems = self.read(self.options)
            if problems or found is None:
                raise UserError("; ".join(f"{problem.path}: {problem.message}" for problem in problems))
            self._kept["selection"] = found
        selection: Selection = self._kept["selection"]
        return selection

    @property
    def settings(self) -> Any:
        """The object of its options class; None without one."""
        return self.selection.options

    @property
    def needs(self) -> frozenset[str]:
        """The capabilities that it declares, and those of components within its options."""
        from core_rl.plugins.selected import selected

        if "needs" not in self._kept:
            components = [one.component for _, one in selected(self.selection)]
            self._kept["needs"] = frozenset[str]().union(*(one.needs for one in components if one is not None))
        needs: frozenset[str] = self._kept["needs"]
        return needs

    def read(self, options: Mapping[str, Any]) -> tuple[Selection | None, list[Problem]]:
        """These options as a run file would have them, and the mistakes in them."""
        problems: list[Problem] = []
        walker = Walker(Lookup(catalogue()), problems)
        node = from_python({**options, "name": self.name}, Origin("options", "options"))
        found = walker.selection(node, self.kind, None, self.kind, Owner(words="option"))
        return (None if found is INVALID else found), problems

    def build(self) -> Any:
        """A new one, with the arguments that its kind is built with. An algorithm is its options."""
        if self.kind == "algorithm":
            return self.read(self.options)[0]
        return build_component(self.component, self.settings, *_arguments(self.kind))

    def keep(self, make: Callable[[Subject], AbstractContextManager[T]]) -> T:
        """Something that takes a while to make, made once and closed at the end."""
        if make not in self._kept:
            self._kept[make] = self._stack.enter_context(make(self))
        kept: T = self._kept[make]
        return kept

    def folder(self) -> Path:
        """A new empty one, which is gone at the end."""
        return Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="core-rl-kit-")))

    def close(self) -> None:
        self._kept.clear()
        self._stack.close()


def _arguments(kind: str) -> tuple[Any, ...]:
    if kind == "aggregation":
        return (MAX_NEW_TOKENS,)
    if kind == "rollout_engine":
        from core_rl.roles.rollout import RolloutContext

        return (RolloutContext(model=_model(), seed=1),)
    if kind == "train_engine":
        from core_rl.roles.train import TrainContext

        return (TrainContext(model=_model(), seed=1, total_steps=1),)
    return ()


def _model() -> Any:
    from core_rl.testing.rollout_engine.bench import MODEL

    return MODEL


def catalogue() -> Catalogue:
    """What is installed. Listed once, and again when the search path or the lists of the environment change."""
    return _listed(tuple(sys.path), os.environ.get(ALLOW_VARIABLE), os.environ.get(BLOCK_VARIABLE))


@functools.lru_cache(maxsize=4)
def _listed(*_: Any) -> Catalogue:
    return Catalogue.discover()


def needs_options(subject: Subject) -> list[str]:
    """The options without defaults that are not given."""
    from core_rl.config.fields import fields_of

    cls = Lookup(catalogue()).options_class(subject.kind, subject.name)
    if cls is None:
        return []
    return [key for key, field in fields_of(cls).items() if field.required and key not in subject.options]
