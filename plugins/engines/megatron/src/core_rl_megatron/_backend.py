"""megatron-core, imported once and with its words about optional parts kept quiet."""

from __future__ import annotations

import functools
import importlib
import os
import warnings
from typing import TYPE_CHECKING

from core_rl.errors import PluginError, UserError

if TYPE_CHECKING:
    import torch


@functools.cache
def require_megatron() -> None:
    """Import what the engine uses of it.

    Raises:
        PluginError: it is not installed.
    """
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")  # orders its kernels behind their communication
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that Apex, Transformer Engine and others are absent
        try:
            importlib.import_module("megatron.core.models.gpt.gpt_model")
            importlib.import_module("megatron.core.optimizer")
            importlib.import_module("megatron.core.dist_checkpointing.strategies.torch")
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "megatron":
                raise
            message = "train_engine: megatron-core is not installed: pip install 'core-rl[megatron]'"
            raise PluginError(message) from error


def require_cuda(device: torch.device) -> None:
    """megatron-core asks CUDA for its device, streams and generators in many places.

    Raises:
        UserError: it would fail there.
    """
    import torch

    try:
        torch.cuda.current_device()
    except (RuntimeError, AssertionError) as error:
        message = f"train_engine: megatron computes on CUDA GPUs, and this process is on {device}: take fsdp or local on a machine without"
        raise UserError(message) from error
