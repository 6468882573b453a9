"""One server of a rollout engine, as the pool of them sees it. A plugin implements this for its kind of server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from core_rl.errors import RunError

if TYPE_CHECKING:
    from core_rl.roles.rollout import Completion, GenerateRequest, PauseMode
    from core_rl.weights.buckets import TensorSpec
    from core_rl.weights.group import GroupPlace
    from core_rl.weights.segment import Segment


class ServerLostError(RunError):
    """A server does not answer, breaks off, or answers that it is broken: another one may do better."""


class Bucket:
    """Some tensors of an update, in this process. They are put into shared memory once, when the first server wants them there."""

    def __init__(self, tensors: Sequence[tuple[str, Any]], segment: Segment) -> None:
        self.tensors = tensors
        self._segment = segment
        self._note: dict[str, Any] | None = None
        self._lock = asyncio.Lock()

    async def note(self) -> dict[str, Any]:
        """What `core_rl.weights.segment.Reader` reads them by."""
        async with self._lock:
            if self._note is None:
                self._note = await asyncio.to_thread(self._segment.write, self.tensors)
        return self._note


class Replica(Protocol):
    """Every method raises `ServerLostError` when the server is lost, and `UserError` for what every server would refuse."""

    name: str
    """For messages: where it is."""
    workers: int
    """How many processes hold weights; known after `start`."""
    reads_memory: bool
    """Whether it takes buckets by their `note`."""

    async def start(self) -> None: ...

    async def health(self) -> None:
        """Returns when the server can take requests at once."""
        ...

    async def recover(self) -> None:
        """Start it again, where core-rl has started it and it has ended; else nothing."""
        ...

    async def version(self) -> int | None:
        """Of the weights that it serves; None where it serves those that it was started with."""
        ...

    async def generate(self, request: GenerateRequest) -> list[Completion]: ...

    async def pause(self, mode: PauseMode) -> None: ...

    async def resume(self) -> None: ...

    async def abort(self, request_id: str) -> None: ...

    async def begin_update(self) -> None:
        """Nothing is decoded until `end_update`; what is in flight goes on afterwards."""
        ...

    async def update(self, bucket: Bucket) -> None: ...

    async def update_delta(self, bucket: Bucket) -> None: ...

    async def update_from_disk(self, path: str) -> None: ...

    async def join_group(self, place: GroupPlace) -> None: ...

    async def update_from_group(self, specs: Sequence[TensorSpec]) -> None: ...

    async def end_update(self, version: int) -> None: ...

    async def fingerprint(self) -> Mapping[str, float]: ...

    async def sleep(self) -> None:
        """Give memory to the trainer, where the server can."""
        ...

    async def wake(self) -> None: ...

    async def close(self) -> None: ...
