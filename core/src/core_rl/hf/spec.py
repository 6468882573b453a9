"""The `model:` section of a run file: which weights, which tokenizer, which precision. Torch-free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs


def _help(text: str, **extra: Any) -> dict[str, Any]:
    return {"help": text, **extra}


@attrs.frozen(kw_only=True)
class ModelSpec:
    """A causal language model, as every engine is told of it."""

    path: str | None = attrs.field(
        default=None,
        metadata=_help("a folder, a hub name, a .gguf file, or package:NAME for weights inside an installed package"),
    )
    init: Literal["pretrained", "random"] = attrs.field(
        default="pretrained", metadata=_help("random makes the weights anew from the config and the run's seed")
    )
    config: Mapping[str, Any] = attrs.field(
        factory=dict,
        metadata=_help("model config: with init random and no path the whole of it (model_type, hidden_size, …), else changes"),
    )
    tokenizer: str | None = attrs.field(
        default=None,
        metadata=_help("a folder or hub name if not the model's own; characters:ABC makes one token of each character"),
    )
    chat_template: str | None = attrs.field(
        default=None, metadata=_help("a Jinja template in place of the tokenizer's own, or a path to one")
    )
    dtype: Literal["float32", "bfloat16", "float16"] = attrs.field(
        default="float32", metadata=_help("precision of the computation; the engine keeps float32 master weights")
    )
    max_length: int | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.ge(2)),
        metadata=_help("longest sequence, prompt and completion together; null takes the model's own"),
    )
    trust_remote_code: bool = attrs.field(default=False, metadata=_help("let a model folder's own Python code run"))
