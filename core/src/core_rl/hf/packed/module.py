"""A model inside one module, for engines that gather its weights in the hooks of `forward` and scatter their gradients.

The chunked head reads the output layer's weight without calling the layer, so that no hook of that layer would see it: whatever is
computed of the model runs inside this module's forward, whose hooks cover every weight that no inner module has taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from core_rl.hf.packed.policy import Outputs

NAME = "model"
"""The attribute: what stands before a weight's own name in the names of the module's weights."""


class Inside(torch.nn.Module):
    """`model` is a transformers model. Calling this with a function calls the function, with every weight of `model` in place."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.add_module(NAME, model)

    def forward(self, compute: Callable[[], Any]) -> Any:
        return compute()


def as_tensors(outputs: Outputs) -> dict[str, torch.Tensor]:
    """What hooks understand: tensors in a plain dictionary."""
    names = ("logprobs", "entropy", "values", "gathered", "topk_ids", "topk_logprobs")
    return {name: value for name in names if (value := getattr(outputs, name)) is not None}


def as_outputs(tensors: Mapping[str, torch.Tensor]) -> Outputs:
    return Outputs(**tensors)
