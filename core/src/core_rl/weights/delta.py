"""Only what changed: most elements of a bfloat16 weight are the same after a step of reinforcement learning.

A change is a set of ordinary tensors, so that it travels by whatever carries tensors: for the weight `w`

    w|places   int32, flat indices of elements that differ, and  w|values  what they are now; or  w|whole  where that is shorter;
    w|sum      int64 [2], the checksums of the whole tensor before (-1: whatever it was) and afterwards.

The receiving side compares both. A weight of which a change was lost is refused at its next change, and one that got a change twice or
in another order at once.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch

from core_rl.errors import RunError
from core_rl.weights.buckets import buckets

if TYPE_CHECKING:
    Named = Iterable[tuple[str, torch.Tensor]]


class Sender:
    """Knows what was sent last, as a copy on the CPU."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[torch.Tensor, int]] = {}

    def forget(self) -> None:
        """The next changes are whole tensors."""
        self._last = {}

    def changes(self, stream: Named) -> Iterator[tuple[str, torch.Tensor]]:
        """What changed since the last call, a weight after the other. Nothing of a weight that is the same."""
        for name, tensor in stream:
            now = tensor.detach().to("cpu", copy=True).contiguous()
            last, before = self._last.get(name, (None, -1))
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
                    yield f"{name}|values", _bits(now)[changed].view(now.dtype)
            after = checksum(now)
            self._last[name] = (now, after)
            yield f"{name}|sum", torch.tensor([before, after])


class Receiver:
    """Has the weights as they were sent last, on the CPU: an engine that loads whole tensors needs them."""

    def __init__(self) -> None:
        self._weights: dict[str, torch.Tensor] = {}
        self._sums: dict[str, int] = {}

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
            if set(part) not in ({"whole", "sum"}, {"places", "values", "sum"}):
                message = f"weight_transport delta: the change of {name} arrived in part: {', '.join(part)}"
                raise RunError(message)
            before, after = (int(value) for value in part["sum"])
            if before != self._sums.get(name) and not (before == -1 and "whole" in part):
                message = (
                    f"weight_transport delta: the change of {name} belongs to another weight than arrived before: a change was lost "
                    "on the way, or came twice"
                )
                raise RunError(message)
            changed = part["whole"].clone() if "whole" in part else _changed(self._weights[name], part)
            if changed is None or checksum(changed) != after:
                message = (
                    f"weight_transport delta: after its change {name} is not what the trainer has: it was damaged on the way"
                )
                raise RunError(message)
            self._weights[name], self._sums[name] = changed, after
            yield name, changed

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """All, whole."""
        yield from self._weights.items()


def whole_changes(stream: Iterator[tuple[str, torch.Tensor]], limit: int) -> Iterator[list[tuple[str, torch.Tensor]]]:
    """Buckets of changes, of which no weight is in two."""
    return buckets(stream, limit, ends=lambda name: name.endswith("|sum"))


def _changed(weight: torch.Tensor, part: dict[str, torch.Tensor]) -> torch.Tensor | None:
    """The weight with the values in their places, over what it was; None where they do not fit."""
    places, values = part["places"].long(), part["values"]
    fits = places.shape == values.shape and values.dtype == weight.dtype
    if not fits or not bool(((places >= 0) & (places < weight.numel())).all()):
        return None
    _bits(weight)[places] = _bits(values)
    return weight


def checksum(tensor: torch.Tensor) -> int:
    """CRC-32 of its bytes, row by row."""
    return zlib.crc32(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """[elements] integers; NaN equals itself in them."""
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.contiguous().view(-1).view(kinds[tensor.element_size()])
