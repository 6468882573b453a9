"""Threads for calls that may hang, such as rewards that are plain functions: one that does blocks neither the others nor the end of the process.

`concurrent.futures` and `asyncio.to_thread` wait for their threads when Python ends, so they cannot be used here.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable
from typing import Any

Job = Callable[[], None]


class OverdueError(Exception):
    """No answer in time. Not a `TimeoutError`: that is what a reward's own network calls raise."""


async def within(answer: Awaitable[Any], timeout_s: float | None) -> Any:
    """An awaitable's result or exception. None: however long it takes.

    Raises:
        OverdueError: it took longer and was cancelled.
    """
    deadline = asyncio.timeout(timeout_s)
    try:
        async with deadline:
            return await answer
    except TimeoutError:
        if deadline.expired():
            raise OverdueError from None
        raise


class DaemonThreads:
    """Made as they are needed; who calls bounds how many are busy. A thread that is given up gets a successor."""

    def __init__(self, name: str) -> None:
        """`name`: of the threads, before their number."""
        self._name = name
        self._idle: list[queue.SimpleQueue[Job]] = []
        self._lock = threading.Lock()
        self._count = 0

    async def call(self, function: Callable[[], Any], timeout_s: float | None = None) -> Any:
        """The function's result, or its exception whatever it is.

        Raises:
            OverdueError: it took longer; its thread is left to itself.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def job() -> None:
            try:
                result, error = function(), None
            except BaseException as caught:  # noqa: BLE001 - SystemExit there is a failure of the call, and not the end of the run
                result, error = None, caught
            try:
                loop.call_soon_threadsafe(_settle, future, result, error)
            except RuntimeError:  # the loop has ended, so nobody waits for this
                return

        self._hand_over(job)
        return await within(future, timeout_s)

    def _hand_over(self, job: Job) -> None:
        with self._lock:
            jobs = self._idle.pop() if self._idle else self._start()
        jobs.put(job)

    def _start(self) -> queue.SimpleQueue[Job]:
        jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._count += 1
        threading.Thread(target=self._work, args=(jobs,), name=f"{self._name}-{self._count}", daemon=True).start()
        return jobs

    def _work(self, jobs: queue.SimpleQueue[Job]) -> None:
        while True:
            jobs.get()()
            with self._lock:
                self._idle.append(jobs)


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():  # given up in the meantime
        return
    if isinstance(error, StopIteration | asyncio.CancelledError | KeyboardInterrupt | SystemExit):
        error = RuntimeError(f"{type(error).__name__}: {error}")  # these mean something else to asyncio
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
