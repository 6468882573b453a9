"""What a plugin registers: a name, where the object lives, and what it needs and provides.

This module imports nothing heavy: listing plugins reads components and never imports their targets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import attrs
import pluggy

hookspec = pluggy.HookspecMarker("core_rl")
hookimpl = pluggy.HookimplMarker("core_rl")

_NAME = re.compile(r"[a-z][a-z0-9_+-]*")
_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def _check_name(_: Component, __: attrs.Attribute[str], value: Any) -> None:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        message = f"a component's name is lower case letters, digits, _, - and +, found {value!r}"
        raise ValueError(message)


def _check_reference(_: Component, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and (not isinstance(value, str) or not _REFERENCE.fullmatch(value)):
        message = f"{attribute.name} is written 'package.module:Object', found {value!r}"
        raise ValueError(message)


def _names(value: Iterable[str]) -> frozenset[str]:
    if isinstance(value, str):
        message = f"needs and provides are sets of capability names, found the text {value!r}"
        raise ValueError(message)  # noqa: TRY004 - all that can be wrong with a component is a ValueError
    return frozenset(value)


@attrs.frozen(kw_only=True)
class Component:
    """One thing that a run file can select by name.

    `target` and `config` are references, `module:Object`; they are imported only when the component is selected.
    `needs` and `provides` are capability names (see `core_rl.capabilities`), negotiated before a model is loaded.
    `formula` and `paper` (an arXiv number) are what `core-rl config show --explain` prints; an options class with a method
    `formula(self) -> str` says it with its own values instead.
    """

    name: str = attrs.field(validator=_check_name)
    target: str = attrs.field(validator=_check_reference)
    config: str | None = attrs.field(default=None, validator=_check_reference)
    summary: str = ""
    formula: str = ""
    paper: str = ""
    needs: frozenset[str] = attrs.field(default=frozenset(), converter=_names)
    provides: frozenset[str] = attrs.field(default=frozenset(), converter=_names)
