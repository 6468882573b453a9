"""Off the device and back, under everything that looks at the same memory.

ZeRO keeps weights, masters and gradients in flat buffers with views upon views. A storage is emptied and filled again in its place, so
that no view has to be made anew, whatever the stage.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch


class Storages:
    """The memory under some tensors, which waits on the CPU between `empty` and `fill`."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        found = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in tensors if tensor.numel()}
        self._storages = list(found.values())
        self._copies: list[torch.UntypedStorage] = []

    def empty(self) -> None:
        for storage in self._storages:
            copy = torch.UntypedStorage(storage.nbytes(), device="cpu")
            copy.copy_(storage)
            self._copies.append(copy)
            storage.resize_(0)

    def fill(self) -> None:
        for storage, copy in zip(self._storages, self._copies, strict=True):
            storage.resize_(copy.nbytes())
            storage.copy_(copy)
        self._copies.clear()
