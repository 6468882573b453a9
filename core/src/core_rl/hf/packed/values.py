"""A number for each token: the layer `score` of a model of values alone, or a head beside the output layer.

E hidden size.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from core_rl.hf.packed.weights import VALUE_HEAD
from core_rl.hf.values import small_head

if TYPE_CHECKING:
    from core_rl.hf.spec import ModelSpec

VALUE_HEAD_FILE = "value_head.safetensors"


def value_weight(module: Any) -> torch.Tensor | None:
    """[1, E]; None for a model that has none."""
    layer = getattr(module, VALUE_HEAD, None)
    if layer is None:
        layer = None if module.get_output_embeddings() is not None else module.score
    return None if layer is None else layer.weight


def add_value_head(module: Any, *, seed: int) -> None:
    """Beside the output layer, `small_head` at first."""
    size = module.config.get_text_config().hidden_size
    head = torch.nn.Linear(size, 1, bias=False, dtype=next(module.parameters()).dtype)
    small_head(head.weight, seed=seed)
    module.add_module(VALUE_HEAD, head)


@torch.no_grad()
def load_value_head(module: Any, spec: ModelSpec) -> None:
    """The head that an earlier training has left in the model's folder."""
    path = None if spec.path is None else Path(spec.path) / VALUE_HEAD_FILE
    if path is not None and path.is_file():
        from safetensors.torch import load_file

        getattr(module, VALUE_HEAD).weight.copy_(load_file(path)["weight"])


def save_value_head(module: Any, path: Path) -> None:
    """Beside the model, which other programs load without it."""
    head = getattr(module, VALUE_HEAD, None)
    if head is not None:
        write_value_head(head.weight, path)


def write_value_head(weight: torch.Tensor, path: Path) -> None:
    """The weight [1, E] of a head, whole."""
    from safetensors.torch import save_file

    save_file({"weight": weight.detach().cpu().contiguous()}, path / VALUE_HEAD_FILE)


@contextmanager
def score_set_aside(module: Any) -> Iterator[None]:
    """While adapters are added, which would take the layer `score` for one to adapt; it is trained as a whole."""
    score = getattr(module, "score", None)
    if module.get_output_embeddings() is not None or score is None:
        yield
        return
    module.score = torch.nn.Identity()
    try:
        yield
    finally:
        module.score = score.requires_grad_()
