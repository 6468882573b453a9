"""Our attention functions in the place of a model's own, through transformers' interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class UnsupportedAttentionError(Exception):
    """The model asks something of attention that a function of ours does not do."""


@contextmanager
def attention_function(model: Any, name: str, function: Callable[..., Any]) -> Iterator[None]:
    """Inside, the model's attention layers call `function`, which is registered as `name`."""
    import transformers

    transformers.AttentionInterface.register(name, function)
    found = {id(m.config): m.config for m in model.modules() if hasattr(getattr(m, "config", None), "_attn_implementation")}
    before = [(config, config._attn_implementation) for config in found.values()]  # noqa: SLF001 - there is no public reader
    try:
        for config, _ in before:
            config._attn_implementation = name  # noqa: SLF001 - the public setter reloads kernels and walks the model
        yield
    finally:
        for config, own in before:
            config._attn_implementation = own  # noqa: SLF001
