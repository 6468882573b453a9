"""Only what changed: most elements of a bfloat16 weight are the same after a step of reinforcement learning.

A change is a set of ordinary tensors, so that it travels by whatever carries tensors: for the weight `w`

    w|places   int32, flat indices of elements that differ, and  w|values  what they are now; or  w|whole  where that is shorter;
    w|sum      int64 [1], the checksum of the whole tensor afterwards.

The receiving side applies it to what it has and compares the checksum: a change that was lost, or applied twice to something else,
cannot pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch

from core_rl.errors import RunError

if TYPE_CHECKING:
    Named = Iterable[tuple[str, torch.Tensor]]

_CHUNK = 2**22
_PRIME = 0x9E3779B1


class Sender:
    """Knows what was sent last, as a copy on the CPU."""

    def __init__(self) -> None:
        self._last: dict[str, torch.Tensor] = {}

    def forget(self) -> None:
        """The next changes are whole tensors."""
        self._last = {}

    def changes(self, stream: Named) -> Iterator[tuple[str, torch.Tensor]]:
        """What changed since the last call, a weight after the other. Nothing of a weight that is the same."""
        for name, tensor in stream:
            now = tensor.detach().to("cpu", copy=True).contiguous()
            last = self._last.get(name)
            self._last[name] = now
            if last is None or last.shape != now.shape or last.dtype != now.dtype:
                yield f"{name}|whole", now
            else:
                changed = (_bits(last) != _bits(now)).nonzero()[:, 0]
                if changed.numel() == 0:
                    continue
                if changed.numel() * (4 + now.element_size()) >= now.numel() * now.element_size() or now.numel() >= 2**31:
                    yield f"{name}|whole", now
                else:
                    yield f"{name}|places", changed.int()
                    yield f"{name}|values", now.view(-1)[changed]
            yield f"{name}|sum", torch.tensor([checksum(now)])


class Receiver:
    """Has the weights as they were sent last, on the CPU: an engine that loads whole tensors needs them."""

    def __init__(self) -> None:
        self._weights: dict[str, torch.Tensor] = {}

    def apply(self, changes: Sequence[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
        """The changed weights, whole.

        Raises:
            RunError: a weight is not what the trainer has after the change.
        """
        parts: dict[str, dict[str, torch.Tensor]] = {}
        for label, tensor in changes:
            name, _, kind = label.rpartition("|")
            parts.setdefault(name, {})[kind] = tensor
        for name, part in parts.items():
            if "whole" in part:
                self._weights[name] = part["whole"].clone()
            elif "places" in part:
                if name not in self._weights:
                    message = f"weight_transport delta: a change of {name} arrived before the weight: it was lost on the way"
                    raise RunError(message)
                self._weights[name].view(-1)[part["places"].long()] = part["values"]
            if "sum" not in part or ("whole" not in part and "places" not in part):
                message = f"weight_transport delta: the change of {name} arrived in part: {', '.join(part)}"
                raise RunError(message)
            if checksum(self._weights[name]) != int(part["sum"]):
                message = (
                    f"weight_transport delta: after the change {name} is not what the trainer has: a change was lost on the way"
                )
                raise RunError(message)
            yield name, self._weights[name]

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """All, whole."""
        yield from self._weights.items()


def whole_changes(stream: Iterator[tuple[str, torch.Tensor]], limit: int) -> Iterator[list[tuple[str, torch.Tensor]]]:
    """Buckets of changes, of which no weight is in two."""
    bucket: list[tuple[str, torch.Tensor]] = []
    size = 0
    for name, tensor in stream:
        bucket.append((name, tensor))
        size += tensor.numel() * tensor.element_size()
        if size >= limit and name.endswith("|sum"):
            yield bucket
            bucket, size = [], 0
    if bucket:
        yield bucket


def checksum(tensor: torch.Tensor) -> int:
    """Of every bit and its place: sum_i (2 i + 1) b_i modulo 2^63, b_i the elements' bits mixed; equal on every device."""
    bits = _bits(tensor)
    total = 0
    for start in range(0, bits.numel(), _CHUNK):
        part = bits[start : start + _CHUNK].long()
        places = torch.arange(start, start + part.numel(), device=part.device) * 2 + 1
        total += int(((part ^ (part >> 7)) * _PRIME * places).sum())
    return total % 2**63


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """[elements] integers; NaN equals itself in them."""
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.contiguous().view(-1).view(kinds[tensor.element_size()])
