"""DeepSpeed, imported for one kind of device and with its many words about itself kept quiet."""

from __future__ import annotations

import importlib
import logging
import os
import warnings
from typing import TYPE_CHECKING, Any

from core_rl.errors import PluginError, UserError

if TYPE_CHECKING:
    import torch


_RENAMED = r"`torch\.distributed\.\w+` is deprecated"
"""What torch says at every collective that DeepSpeed calls by its older name."""


def backend() -> Any:
    """The module, where `require_deepspeed` has been before."""
    return importlib.import_module("deepspeed")


def require_deepspeed(device: torch.device) -> Any:
    """The module `deepspeed`, which takes one kind of device for the life of a process.

    Raises:
        PluginError: it is not installed.
        UserError: it runs on another kind of device in this process.
    """
    os.environ.setdefault("DS_ACCELERATOR", device.type)
    os.environ.setdefault("LOCAL_RANK", "0")  # a process that no launcher has started
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of optional parts that are absent or old
        try:
            deepspeed = backend()
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "deepspeed":
                raise
            message = "train_engine: deepspeed is not installed: pip install 'core-rl[deepspeed]'"
            raise PluginError(message) from error
    warnings.filterwarnings("ignore", _RENAMED, FutureWarning)
    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    found = deepspeed.accelerator.get_accelerator().device_name()
    if found != device.type:
        message = (
            f"train_engine.device: DeepSpeed runs on {found} in this process, and {device.type} is wanted: set DS_ACCELERATOR="
            f"{device.type}, or take one kind of device for all engines of a worker"
        )
        raise UserError(message)
    if device.type == "cpu":  # a collective through shared memory that it would compile for two minutes; gloo does the same
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    return deepspeed
