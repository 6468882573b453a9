"""What runs in a worker process: objects by key, and generators that the driver draws from. Every launcher uses it.

It is not told what it holds: an engine, or whatever else a plugin creates in a group.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from core_rl.plugins.build import build_worker_form
from core_rl.workers.group import Failure

if TYPE_CHECKING:
    from core_rl.plugins.build import WorkerForm

BUCKET_BYTES = 256 * 2**20
"""About so much is sent at once of a stream of tensors."""


@attrs.frozen(kw_only=True)
class Request:
    """One call of a method of `Worker`."""

    operation: str
    args: tuple[Any, ...]
    options: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Reply:
    """What came of it."""

    result: Any = None
    failure: Failure | None = None


class Worker:
    """The objects of one rank."""

    def __init__(self) -> None:
        self._objects: dict[str, Any] = {}
        self._streams: dict[int, Iterator[Any]] = {}
        self._numbers = itertools.count()

    def answer(self, request: Request) -> Any:
        return getattr(self, request.operation)(*request.args, **request.options)

    def create(self, key: str, form: WorkerForm, args: Sequence[Any]) -> None:
        """`args` follow the component's own options."""
        self._objects[key] = build_worker_form(form, *args)

    def call(self, key: str, method: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        return getattr(self._objects[key], method)(*args, **kwargs)

    def open(self, key: str, method: str, args: Sequence[Any]) -> int:
        """Begin a generator method. The number is the same on every rank, since all get the same calls."""
        number = next(self._numbers)
        self._streams[number] = iter(self.call(key, method, args, {}))
        return number

    def draw(self, stream: int, *, keep: bool) -> list[Any] | None:
        """The next bucket of items, or None at the end. A rank that is not to `keep` them goes through them all the same.

        A tensor may be a view of weights that change: what is kept is a copy, on the CPU.
        """
        items: list[Any] = []
        size, count = 0, 0
        for item in self._streams[stream]:
            count += 1
            size += _num_bytes(item)
            if keep:
                items.append(_detached(item))
            if size >= BUCKET_BYTES:
                return items
        if count:  # not `items`: a rank that keeps none is to end with the others
            return items
        del self._streams[stream]
        return None

    def shut(self, stream: int) -> None:
        """Give up a stream that was not drawn to its end."""
        generator = self._streams.pop(stream, None)
        if generator is not None and hasattr(generator, "close"):
            generator.close()

    def remove(self, key: str) -> None:
        """Let it close itself, and forget it."""
        close = getattr(self._objects.pop(key, None), "close", None)
        if close is not None:
            close()


def _num_bytes(item: Any) -> int:
    tensors = [part for part in (item if isinstance(item, tuple) else (item,)) if hasattr(part, "element_size")]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _detached(item: Any) -> Any:
    if isinstance(item, tuple):
        return tuple(_detached(part) for part in item)
    if not hasattr(item, "element_size"):
        return item
    tensor = item.detach()
    return tensor.clone() if tensor.device.type == "cpu" else tensor.cpu()
