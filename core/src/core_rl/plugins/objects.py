"""`module:Object` in place of a name: a component out of a researcher's own file, with no package yet.

The object is the target. It may say more of itself, in attributes:

    class MyLoss:
        __core_rl_config__ = MyLossConfig          # its attrs config class, or "module:Class"; without it there are no options
        needs = frozenset({"ref_logprobs"})        # capability names
        provides = frozenset()
"""

from __future__ import annotations

import re
from typing import Any

import attrs

from core_rl.component import Component
from core_rl.errors import PluginError
from core_rl.plugins.references import load_reference


def object_component(kind: str, reference: str) -> Component:
    """The component that `module:Object` stands for.

    Raises:
        PluginError: it cannot be imported, is not callable, or says something wrong of itself.
    """
    target = load_reference(reference)
    if not callable(target):
        message = f"{reference} is {target!r}; a {kind} is a class, or a function that makes one"
        raise PluginError(message)
    try:
        return Component(
            name=_snake_case(reference.rpartition(":")[2].rpartition(".")[2]),
            target=reference,
            config=_config(target, reference),
            summary=(getattr(target, "__doc__", None) or "").strip().partition("\n")[0],
            needs=_capabilities(target, "needs", reference),
            provides=_capabilities(target, "provides", reference),
        )
    except ValueError as error:
        message = f"{reference}: {error}"
        raise PluginError(message) from error


def _config(target: Any, reference: str) -> str | None:
    config = getattr(target, "__core_rl_config__", None)
    if config is None:
        return None
    text = f"{config.__module__}:{config.__qualname__}" if isinstance(config, type) else config
    cls = load_reference(text) if isinstance(text, str) else None
    if not isinstance(cls, type) or not attrs.has(cls):
        message = f"{reference}: __core_rl_config__ is {config!r}; it names an attrs class"
        raise PluginError(message)
    return str(text)


def _capabilities(target: Any, attribute: str, reference: str) -> frozenset[str]:
    names: Any = getattr(target, attribute, frozenset())
    if not isinstance(names, frozenset | set | tuple | list) or not all(isinstance(name, str) for name in names):
        message = f"{reference}: {attribute} is {names!r}; it is a set of capability names"
        raise PluginError(message)
    return frozenset(names)


def _snake_case(name: str) -> str:
    """`MyLoss2` as `my_loss2`: the name in metrics and logs."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return re.sub(r"[^a-z0-9_]", "_", words.lower()).lstrip("_0123456789") or "custom"
