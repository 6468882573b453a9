"""What a run needs to go on exactly: master weights, optimizer, schedule, random numbers.

weights.safetensors     the trainable weights, float32
reference.safetensors   the reference policy's, once it is no longer the initial one
state.pt                optimizer, step and generators; read with `weights_only`
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from core_rl.errors import CheckpointError

WEIGHTS, REFERENCE, STATE = "weights.safetensors", "reference.safetensors", "state.pt"


def save_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    from safetensors.torch import save_file

    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)


@torch.no_grad()
def load_tensors(path: Path, into: Mapping[str, torch.Tensor]) -> None:
    """Copies a file of `save_tensors` into tensors of the same names and shapes.

    Raises:
        CheckpointError: there is no such file, it is cut short, or it is of another model.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            names = set(file.keys())
            if names != set(into):
                odd = min(names ^ set(into))
                message = f"{path}: the checkpoint is of another model or other adapters: {odd} is on one side only"
                raise CheckpointError(message)
            for name, tensor in into.items():
                stored = file.get_tensor(name)
                if stored.shape != tensor.shape:
                    message = f"{path}: {name} is {list(stored.shape)} in the checkpoint and {list(tensor.shape)} in the model"
                    raise CheckpointError(message)
                tensor.copy_(stored)
    except (OSError, SafetensorError) as error:
        message = f"{path}: cannot be read: {error}"
        raise CheckpointError(message) from error


def load_state(path: Path) -> dict[str, Any]:
    import pickle

    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        message = f"{path}: cannot be read: {error}"
        raise CheckpointError(message) from error
    return state


def random_state() -> dict[str, Any]:
    """The generators of torch, CUDA, Python and, if it is in use, numpy."""
    state: dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state_all()
    if "numpy" in sys.modules:
        kind, keys, *rest = sys.modules["numpy"].random.get_state()
        state["numpy"] = (kind, keys.tolist(), *rest)
    return state


def set_random_state(state: Mapping[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
    if "numpy" in state and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(tuple(state["numpy"]))
