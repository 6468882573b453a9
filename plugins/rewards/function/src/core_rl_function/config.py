"""Options of the reward `function`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs


def _check_function(_: Any, __: attrs.Attribute[Any], value: str) -> None:
    place, separator, name = value.rpartition(":")
    if not separator or not place or not name.isidentifier():
        message = f"written package.module:name or path/to/file.py:name, found {value!r}"
        raise ValueError(message)


@attrs.frozen(kw_only=True)
class FunctionConfig:
    """Which function, and what else it is given."""

    function: str = attrs.field(
        validator=_check_function,
        metadata={"help": "package.module:name, or path/to/file.py:name; the working directory is searched too"},
    )
    arguments: Mapping[str, Any] = attrs.field(
        factory=dict, metadata={"help": "further arguments, by name, the same for every sample"}
    )
