"""Nothing is asked twice: answers are kept by key, and who asks for what is being asked already waits for that answer."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Memo(Generic[T]):
    """For one event loop. What was used longest ago leaves first; what failed is not kept."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[bytes, T] = OrderedDict()
        self._asked: dict[bytes, asyncio.Task[T]] = {}

    async def get(self, key: bytes, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer of this key; `make` is called where there is none yet."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        task = self._asked.get(key)
        if task is None:
            task = self._asked[key] = asyncio.get_running_loop().create_task(make())
            task.add_done_callback(lambda done: self._settle(key, done))
        return await asyncio.shield(task)  # one that waits may be cancelled, and the others not with it

    def _settle(self, key: bytes, task: asyncio.Task[T]) -> None:
        del self._asked[key]
        if task.cancelled() or task.exception() is not None:
            return
        self._kept[key] = task.result()
        if len(self._kept) > self._size:
            self._kept.popitem(last=False)
