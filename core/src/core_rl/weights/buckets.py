"""A stream of named tensors in lists of about the same size: the whole model is never in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    import torch


def buckets(
    stream: Iterable[tuple[str, torch.Tensor]], limit: int, *, ends: Callable[[str], bool] = lambda _: True
) -> Iterator[list[tuple[str, torch.Tensor]]]:
    """Lists of at least `limit` bytes, but for the last. At least one tensor in each, and the last one has a name that `ends` it."""
    bucket: list[tuple[str, torch.Tensor]] = []
    size = 0
    for name, tensor in stream:
        bucket.append((name, tensor))
        size += size_of(tensor)
        if size >= limit and ends(name):
            yield bucket
            bucket, size = [], 0
    if bucket:
        yield bucket


def size_of(tensor: torch.Tensor) -> int:
    """In bytes."""
    return tensor.numel() * tensor.element_size()


@attrs.frozen(kw_only=True)
class TensorSpec:
    """What a tensor is, without its values; `dtype` as in torch.<dtype>."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, name: str, tensor: torch.Tensor) -> TensorSpec:
        return cls(name=name, dtype=str(tensor.dtype).removeprefix("torch."), shape=tuple(tensor.shape))

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> TensorSpec:
        return cls(name=value["name"], dtype=value["dtype"], shape=tuple(value["shape"]))

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "dtype": self.dtype, "shape": list(self.shape)}

    def empty(self, device: Any = "cpu") -> torch.Tensor:
        import torch

        return torch.empty(self.shape, dtype=getattr(torch, self.dtype), device=device)
