"""What travels between driver and actors: a pickle, and the numbers of its tensors beside it.

Ray maps arrays into every process of a node without a copy; torch's own pickle of a tensor is copied four times on its way.
"""

from __future__ import annotations

import io
import pickle
import sys
from typing import Any

import numpy as np
from ray import cloudpickle

Message = tuple[bytes, list[Any]]
"""The pickle, and flat arrays of bytes, one for each tensor."""


def pack(value: Any) -> Message:
    """By cloudpickle: what a notebook or a script has defined goes along.

    Raises:
        pickle.PicklingError, AttributeError, TypeError: something in it does not pickle.
    """
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    _Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(value)
    return stream.getvalue(), [np.frombuffer(buffer.raw(), dtype=np.uint8) for buffer in buffers]


def unpack(message: Message) -> Any:
    """Tensors are copies, which may be written to."""
    pickled, buffers = message
    return pickle.loads(pickled, buffers=buffers)  # noqa: S301 - of the run's own processes


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc, unused-ignore]
    def reducer_override(self, value: Any) -> Any:
        if not _is_plain(value):
            return super().reducer_override(value)
        numbers = value.detach().contiguous().reshape(-1).view(sys.modules["torch"].uint8).numpy()
        return _tensor, (pickle.PickleBuffer(numbers), str(value.dtype).removeprefix("torch."), tuple(value.shape))


def _is_plain(value: Any) -> bool:
    """A dense tensor on the CPU that nothing learns through. Others, as parameters, pickle as ever."""
    torch = sys.modules.get("torch")  # where nobody has imported it, there are no tensors
    if torch is None or type(value) is not torch.Tensor:
        return False
    return value.device.type == "cpu" and value.layout is torch.strided and not value.requires_grad and not value.is_quantized


def _tensor(buffer: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    import torch

    found = torch.empty(shape, dtype=getattr(torch, dtype))
    found.reshape(-1).view(torch.uint8).numpy()[:] = np.frombuffer(buffer, dtype=np.uint8)
    return found
