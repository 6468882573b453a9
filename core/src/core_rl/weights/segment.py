"""Named tensors in a piece of this machine's shared memory, which other processes read in place.

What is sent of it is a note: its name, and where each tensor lies. A segment is used again for the next bucket, and kept for the next
update: pages that the system has given once cost no time again.
"""

from __future__ import annotations

import mmap
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core_rl.errors import RunError
from core_rl.weights.buckets import TensorSpec, size_of

if TYPE_CHECKING:
    import torch

FOLDER = Path("/dev/shm")  # noqa: S108 - shared memory, not a place for files
_ALIGNMENT = 64


class Segment:
    """The writing side. The memory is given back with `close`, and at the latest when this machine starts again."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self._memory: mmap.mmap | None = None

    def write(self, tensors: Sequence[tuple[str, torch.Tensor]]) -> dict[str, Any]:
        """Copy the tensors in, over what was there. Returns the note for `read`, in JSON's types."""
        places, end = [], 0
        for name, tensor in tensors:
            places.append({**TensorSpec.of(name, tensor).to_json(), "offset": end})
            end += -(-size_of(tensor) // _ALIGNMENT) * _ALIGNMENT
        memory = self._of_size(end)
        for place, (_, tensor) in zip(places, tensors, strict=True):
            _view(memory, place).copy_(tensor.detach())
        return {"path": str(self.path), "size": end, "tensors": places, "host": _host()}

    def _of_size(self, size: int) -> mmap.mmap:
        if self._memory is None or len(self._memory) < size:
            self.close()
            # a new name: a reader that has missed this bucket must not take the next one out of what it has mapped
            self.path = FOLDER / f"core-rl-{os.getpid()}-{secrets.token_hex(4)}"
            try:
                with self.path.open("x+b") as file:
                    os.posix_fallocate(file.fileno(), 0, max(size, 1))  # a full memory says so here, not by a signal later
                    self._memory = mmap.mmap(file.fileno(), max(size, 1))
            except OSError as error:
                self.close()
                message = (
                    f"weight_transport: {size / 2**20:.0f} MiB of shared memory cannot be had in {FOLDER} ({error.strerror}): "
                    "lower weight_transport.bucket_mb, or make it larger (in a container --shm-size)"
                )
                raise RunError(message) from error
        return self._memory

    def close(self) -> None:
        self._memory = None  # the mapping ends with its last view
        if self.path is not None:
            self.path.unlink(missing_ok=True)
            self.path = None


class Reader:
    """The reading side: keeps the segments that it knows mapped."""

    def __init__(self) -> None:
        self._known: dict[str, mmap.mmap] = {}

    def read(self, note: dict[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
        """The tensors as they lie in the segment: good until the writer uses it again.

        Raises:
            RunError: the segment is not on this machine.
        """
        memory = self._mapped(note)
        for place in note["tensors"]:
            yield place["name"], _view(memory, place)

    def _mapped(self, note: dict[str, Any]) -> mmap.mmap:
        path, size = note["path"], max(note["size"], 1)
        known = self._known.get(path)
        if known is not None and len(known) >= size:
            return known
        try:
            with Path(path).open("r+b") as file:  # torch has no read-only tensors, so that the mapping is a writable one
                self._known = {name: memory for name, memory in self._known.items() if Path(name).exists() and name != path}
                self._known[path] = mmap.mmap(file.fileno(), 0)
        except OSError as error:
            message = (
                f"weight_transport: the weights lie in the memory of {note['host']}, which {_host()} cannot read "
                f"({error.strerror}): between machines take weight_transport disk or collective"
            )
            raise RunError(message) from error
        return self._known[path]


def _view(memory: mmap.mmap, place: dict[str, Any]) -> torch.Tensor:
    import torch

    spec = TensorSpec.from_json(place)
    dtype = getattr(torch, spec.dtype)
    count = 1
    for length in spec.shape:
        count *= length
    if count == 0:
        return torch.empty(spec.shape, dtype=dtype)
    return torch.frombuffer(memory, dtype=dtype, count=count, offset=place["offset"]).view(spec.shape)


def _host() -> str:
    return os.uname().nodename
