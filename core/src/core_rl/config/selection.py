"""How a configuration class says "a component goes here".

    loss: Selection = component("loss", "ppo_clip", help="the policy loss")
    rewards: tuple[Selection, ...] = components("reward")

In YAML a selection is a name, or a mapping with `name` and the component's own options. `name` may be `plugin/name`, or
`module:Object` for something that no plugin registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from core_rl.component import Component

WEIGHTED = frozenset({"reward", "loss"})
"""Kinds whose entries in a list may have a `weight`."""


@attrs.frozen(kw_only=True)
class Selection:
    """A component chosen by name. Before resolution `options` is the raw mapping; after it, the component's config object."""

    kind: str
    name: str
    options: Any = attrs.field(factory=dict)
    component: Component | None = None
    plugin: str | None = None
    """The distribution that registered it; None for `module:Object`."""
    weight: float = 1.0
    """In a weighted sum; read from the key `weight` that every entry of `rewards` and `extra_losses` may have."""


def select(kind: str, name: str, **options: Any) -> Selection:
    """An unresolved selection, for defaults."""
    return Selection(kind=kind, name=name, options=options)


def component(kind: str, default: str | None = None, *, help: str, optional: bool = False, **options: Any) -> Any:  # noqa: A002
    """An attrs field that holds one `Selection`; without a default it is required, unless `optional`."""
    metadata = {"component": kind, "help": help}
    if default is not None:
        return attrs.field(factory=lambda: select(kind, default, **options), metadata=metadata)
    if optional:
        return attrs.field(default=None, metadata=metadata)
    return attrs.field(metadata=metadata)


def components(
    kind: str,
    default: tuple[str | Mapping[str, Any], ...] = (),
    *,
    help: str,  # noqa: A002
    weighted: bool = False,
) -> Any:
    """An attrs field that holds a tuple of `Selection`, in the order of the YAML list; `weighted`: each may have a `weight`."""

    def make() -> tuple[Selection, ...]:
        return tuple(
            select(kind, item)
            if isinstance(item, str)
            else select(kind, item["name"], **{k: v for k, v in item.items() if k != "name"})
            for item in default
        )

    return attrs.field(factory=make, metadata={"component": kind, "many": True, "weighted": weighted, "help": help})
