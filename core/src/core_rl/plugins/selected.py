"""Every component that a run file selects, wherever it stands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from core_rl.config.selection import Selection


def selected(record: Any, path: str = "") -> Iterator[tuple[str, Selection]]:
    """(path, selection) of a run file, also those within the options of others: `algorithm`, `algorithm.loss`, `rewards[0]`."""
    if isinstance(record, Selection):
        yield path, record
        yield from selected(record.options, path)
    elif isinstance(record, tuple | list):
        for index, item in enumerate(record):
            yield from selected(item, f"{path}[{index}]")
    elif attrs.has(type(record)):
        for field in attrs.fields(type(record)):
            yield from selected(getattr(record, field.name), f"{path}.{field.name}" if path else field.name)
