"""The methods of a worker group in terms of one: send requests to all ranks and gather what they answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from core_rl.errors import RunError
from core_rl.workers.group import First, Gather, Split
from core_rl.workers.worker import Request

if TYPE_CHECKING:
    from core_rl.plugins.build import WorkerForm


class GroupCalls(ABC):
    """A `core_rl.workers.group.WorkerGroup`, for a launcher that says how requests travel and how its processes end."""

    world_size: int

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Neither closed nor ended by a failure."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _exchange(self, requests: Sequence[Request], gather: Gather, *, doing: str) -> Any:
        """One request for all ranks, sent as one message where that is cheaper, or one for each; then all replies, gathered."""

    def create(self, key: str, form: WorkerForm, *args: Any) -> None:
        self._all(Request(operation="create", args=(key, form, args)), doing=f"making {form[0]}")

    def call(
        self, key: str, method: str, *args: Any, split: Split | None = None, gather: Gather | None = None, **kwargs: Any
    ) -> Any:
        parts = None if split is None else split(args, self.world_size)
        requests = [Request(operation="call", args=(key, method, own, kwargs)) for own in ([args] if parts is None else parts)]
        return self._run(requests, gather or First(), doing=method)

    def stream(self, key: str, method: str, *args: Any) -> Iterator[Any]:
        number = self._all(Request(operation="open", args=(key, method, args)), doing=method)
        done = False
        try:
            while not done:
                ranks = range(self.world_size)
                requests = [Request(operation="draw", args=(number,), options={"keep": rank == 0}) for rank in ranks]
                items = self._run(requests, First(), doing=method)
                done = items is None
                yield from items or ()
        finally:
            if not done and self.alive:
                self._all(Request(operation="shut", args=(number,)), doing=method)

    def remove(self, key: str) -> None:
        if self.alive:
            self._all(Request(operation="remove", args=(key,)), doing="remove")

    def _all(self, request: Request, *, doing: str) -> Any:
        return self._run([request], First(), doing=doing)

    def _run(self, requests: Sequence[Request], gather: Gather, *, doing: str) -> Any:
        if not self.alive:
            message = f"{doing}: the workers are gone"
            raise RunError(message)
        return self._exchange(requests, gather, doing=doing)
