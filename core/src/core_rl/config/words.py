"""What was expected, what was found, and the mend, in words."""

from __future__ import annotations

import collections.abc
import types
import typing
from pathlib import Path
from typing import Any, Literal

from core_rl.config.fields import is_section, members
from core_rl.config.scalars import parse_scalar
from core_rl.config.selection import Selection
from core_rl.config.tree import ListNode, Node, Scalar
from core_rl.suggest import nearest

_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "text",
    Path: "a path",
    type(None): "null",
    None: "null",
    Any: "anything",
}
LISTS = (tuple, list, set, frozenset, collections.abc.Sequence, collections.abc.Set, collections.abc.Iterable)
MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_LONGEST = 60


def expected(hint: Any) -> str:
    """A type, as a user would say it."""
    origin = typing.get_origin(hint)
    if origin in {typing.Union, types.UnionType}:
        return " or ".join(expected(member) for member in members(hint))
    if hint in _WORDS:
        return _WORDS[hint]
    if origin is Literal:
        choices = [str(choice) for choice in typing.get_args(hint)]
        return choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"
    if origin in LISTS or hint in LISTS:
        return _list(typing.get_args(hint))
    if hint is Selection:
        return "a component's name, or a mapping with `name` and its options"
    return "a mapping" if origin in MAPPINGS or hint in MAPPINGS or is_section(hint) else str(hint)


def _list(arguments: tuple[Any, ...]) -> str:
    of = {str: " of texts", int: " of integers", float: " of numbers", Selection: " of components"}
    return "a list" + (of.get(arguments[0], "") if arguments else "")


def found(node: Node, *, secret: bool = False) -> str:
    """What stands at a place."""
    if not isinstance(node, Scalar):
        return "a list" if isinstance(node, ListNode) else "a mapping"
    if node.value is None:
        return "nothing (null)"
    if secret:
        return "***"
    if isinstance(node.value, str):
        text = node.value if len(node.value) <= _LONGEST else node.value[:_LONGEST] + "…"
        return f"text {text!r}"
    return node.text


def mend(hint: Any, node: Node) -> str:
    """How to write what was probably meant, as a clause; nothing where there is no telling."""
    if not isinstance(node, Scalar):
        return ""
    choices = [str(one) for member in members(hint) if typing.get_origin(member) is Literal for one in typing.get_args(member)]
    guess = nearest(node.text, choices) if choices else None
    clause = _mend_scalar({member for member in members(hint) if isinstance(member, type)}, node)
    return clause or (f"; did you mean `{guess}`?" if guess else "") or _mend_list(hint, node)


def _mend_scalar(wanted: set[type], node: Scalar) -> str:
    value = node.value
    if bool in wanted and isinstance(value, str) and value.lower() in {"yes", "no", "on", "off", "y", "n"}:
        return f" (write {'true' if value.lower() in {'yes', 'on', 'y'} else 'false'})"
    if int in wanted and isinstance(value, float) and value.is_integer():
        return f" (write {int(value)})"
    if str in wanted and isinstance(value, (bool, int, float)):
        return f' (write "{node.text}", in quotes)'
    if wanted & {int, float} and isinstance(value, str):
        return _mend_number(value)
    return ""


def _mend_number(text: str) -> str:
    for plain in (text.strip(), text.replace("_", ""), text.replace(",", "")):
        if isinstance(parse_scalar(plain), (int, float)):
            return f" (write {plain}, without quotes)" if plain == text else f" (write {plain})"
    return ""


def _mend_list(hint: Any, node: Scalar) -> str:
    is_list = any(typing.get_origin(member) in LISTS or member in LISTS for member in members(hint))
    return f" (write [{node.text}])" if is_list and node.value is not None else ""
