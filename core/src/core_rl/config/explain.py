"""What an algorithm comes to once every default is in: each part in words and in symbols, with its paper. Torch-free.

The symbols of a component are `options.formula()` where its options class writes its own, else those it was registered with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.config.fields import fields_of
from core_rl.config.offline import OfflineConfig
from core_rl.config.selection import Selection
from core_rl.config.show import plain

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile


@attrs.frozen(kw_only=True)
class Part:
    """One part of an algorithm. `place` is its key under `algorithm`."""

    place: str
    name: str
    words: str = ""
    formula: str = ""
    paper: str = ""
    """An arXiv number."""
    options: Mapping[str, Any] = attrs.field(factory=dict)
    """Every option with its value, but for components within, which are parts of their own."""


def explain(run_file: RunFile) -> list[Part]:
    """The algorithm itself, then its parts in the order in which they act. A part that is left out says so."""
    from core_rl.config.explain_settings import offline_parts, online_parts

    algorithm = run_file.algorithm
    named = attrs.evolve(part_of("algorithm", algorithm), options={})
    if isinstance(algorithm.options, AlgorithmConfig):
        return [named, *online_parts(run_file, algorithm.options)]
    if isinstance(algorithm.options, OfflineConfig):
        return [named, *offline_parts(algorithm.options)]
    return [named]


def selected_parts(place: str, selection: Selection | None) -> Iterator[Part]:
    """The component, and those within its options after it; `none` where there is none."""
    if selection is None:
        yield Part(place=place, name="none")
        return
    yield part_of(place, selection)
    options = selection.options
    if attrs.has(type(options)):
        for field in attrs.fields(type(options)):
            inner = getattr(options, field.name)
            if isinstance(inner, Selection):
                yield from selected_parts(f"{place}.{field.name}", inner)


def part_of(place: str, selection: Selection) -> Part:
    component, options = selection.component, selection.options
    return Part(
        place=place,
        name=selection.name,
        words=component.summary if component and component.summary else _first_line(options),
        formula=formula_of(selection),
        paper=component.paper if component else "",
        options=_values(options),
    )


def formula_of(selection: Selection) -> str:
    """With the values of its options where the options class writes it."""
    if hasattr(selection.options, "formula"):
        return str(selection.options.formula())
    return selection.component.formula if selection.component else ""


def as_records(parts: list[Part]) -> list[dict[str, Any]]:
    """For JSON: without what is empty."""
    return [{key: value for key, value in attrs.asdict(part).items() if value} for part in parts]


def _values(options: Any) -> dict[str, Any]:
    cls: type = type(options)
    if not attrs.has(cls):
        return {}
    within = {key for key, field in fields_of(cls).items() if isinstance(getattr(options, field.name), Selection)}
    return {key: value for key, value in plain(options).items() if key not in within}


def _first_line(options: Any) -> str:
    return (type(options).__doc__ or "").strip().partition("\n")[0] if attrs.has(type(options)) else ""
