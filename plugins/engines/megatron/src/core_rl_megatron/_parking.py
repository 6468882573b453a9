"""Memory of a device given back while its tensors stay what they are: contents go to the host, storages shrink to nothing.

Megatron's parameters and gradients are views into large buffers. A storage that grows again has all its views in place.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch


class Parked:
    """Storages of tensors, each once. Those of `scratch` come back as zeros."""

    def __init__(self, tensors: Iterable[torch.Tensor], scratch: Iterable[torch.Tensor]) -> None:
        self._kept: list[tuple[torch.UntypedStorage, torch.Tensor]] = []
        self._scratch: list[tuple[torch.UntypedStorage, int]] = []
        for storage in _storages(scratch):
            self._scratch.append((storage, storage.nbytes()))
            storage.resize_(0)
        for storage in _storages(tensors):
            self._kept.append((storage, _bytes(storage).to("cpu", copy=True)))
            storage.resize_(0)

    def restore(self) -> None:
        for storage, copy in self._kept:
            storage.resize_(copy.numel())
            _bytes(storage).copy_(copy)
        for storage, size in self._scratch:
            storage.resize_(size)
            _bytes(storage).zero_()


def _storages(tensors: Iterable[torch.Tensor]) -> list[torch.UntypedStorage]:
    """With something in them; one that several tensors share once."""
    found = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in tensors}
    return [storage for storage in found.values() if storage.nbytes()]


def _bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    """[bytes] uint8, on the same memory."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
