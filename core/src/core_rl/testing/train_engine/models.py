"""Tiny models for tests of train engines: two layers, grouped keys and values, a vocabulary that few numbers of ranks divide.

Weights are ten times as wide as transformers' own: near-uniform predictions would hide a wrong attention behind any tolerance.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from core_rl.hf.spec import ModelSpec

VOCABULARY = 66
"""Tokens: three special ones and 63 characters."""
SEED = 7
"""Of every engine; it decides random weights."""

_CHARACTERS = "".join(chr(ord("0") + index) for index in range(VOCABULARY - 3))
_SHAPE = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.2,
}


def tiny(model_type: str, **changes: Any) -> ModelSpec:
    """A model of this type with random weights; `changes` are entries of its transformers config, added or replaced."""
    config = {"model_type": model_type, **_SHAPE, **changes}
    return ModelSpec(init="random", tokenizer=f"characters:{_CHARACTERS}", config=config)


MODELS: Mapping[str, ModelSpec] = {
    "llama": tiny("llama", tie_word_embeddings=True),
    "qwen2": tiny("qwen2", tie_word_embeddings=False),
    "qwen3": tiny("qwen3", tie_word_embeddings=False, head_dim=16),
}
"""Tied embeddings; biases of queries, keys and values; norms of queries and keys, and heads wider than hidden size over heads."""


_FOLDERS: dict[str, tempfile.TemporaryDirectory[str]] = {}  # they are removed with the process


def pretrained(spec: ModelSpec) -> ModelSpec:
    """The same architecture out of a folder, in which norms and biases, which begin at ones and zeros, have values of their own."""
    key = repr(spec)
    if key not in _FOLDERS:
        _FOLDERS[key] = tempfile.TemporaryDirectory(prefix="core-rl-model-")
        _write(spec, Path(_FOLDERS[key].name))
    return attrs.evolve(spec, path=_FOLDERS[key].name, init="pretrained", config={}, tokenizer=None)


def _write(spec: ModelSpec, path: Path) -> None:
    import torch

    from core_rl.hf.load import load_model
    from core_rl.hf.tokenizer import load_tokenizer

    model = load_model(spec, seed=SEED + 1)
    random = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=random))
    model.save_pretrained(path)
    load_tokenizer(spec).save_pretrained(str(path))
