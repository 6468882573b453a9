"""A group of worker processes on this machine, each with a pipe to the driver."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import wait
from typing import Any

from core_rl.errors import UserError
from core_rl.ports import free_port
from core_rl.workers.calls import GroupCalls
from core_rl.workers.group import Failure, Gather, first_cause
from core_rl.workers.local_process import serve
from core_rl.workers.ranks import Ranks
from core_rl.workers.worker import Reply, Request

_SETTLE_S = 2.0
"""After the first failure: so long the others may tell theirs, one of which may be the cause."""
_GOODBYE_S = 5.0


class LocalGroup(GroupCalls):
    """A `core_rl.workers.group.WorkerGroup`. The processes start at once."""

    def __init__(self, workers: int, *, threads: int | None = None, environment: Mapping[str, str] | None = None) -> None:
        from torch import multiprocessing

        self.world_size = workers
        context = multiprocessing.get_context("spawn")  # CUDA, and threads that hold locks, forbid fork
        port, threads = free_port(), threads or max(1, (os.cpu_count() or 1) // workers)
        self._connections, self._processes = [], []
        for rank in range(workers):
            ours, theirs = context.Pipe()
            place = Ranks(rank=rank, world_size=workers, local_rank=rank).environment(address="127.0.0.1", port=port)
            about = {"rank": rank, "environment": {**(environment or {}), **place}, "threads": threads, "driver": os.getpid()}
            process = context.Process(target=serve, args=(theirs,), kwargs=about, name=f"core-rl worker {rank}", daemon=True)
            process.start()
            theirs.close()
            self._connections.append(ours)
            self._processes.append(process)

    @property
    def alive(self) -> bool:
        return bool(self._processes)

    def close(self) -> None:
        for connection in self._connections:
            connection.close()  # a worker that reads sees the end
        deadline = time.monotonic() + _GOODBYE_S
        for process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        self._connections, self._processes = [], []

    def _exchange(self, requests: Sequence[Request], gather: Gather, *, doing: str) -> Any:
        places = [((rank if len(requests) > 1 else 0), gather.wants(rank)) for rank in range(self.world_size)]
        messages = {(index, fetch): _pickled(requests[index], fetch=fetch) for index, fetch in dict.fromkeys(places)}
        try:
            for place, connection in zip(places, self._connections, strict=True):
                with contextlib.suppress(OSError):  # it is dead, which the wait finds out
                    connection.send_bytes(messages[place])
            results = self._replies(doing)
        except BaseException:  # also Ctrl-C: the answers that are still to come would be taken for those of the next call
            self._kill()
            raise
        return gather(results)

    def _replies(self, doing: str) -> list[Any]:
        """In the order of ranks. The first failure ends the group."""
        results: list[Any] = [None] * self.world_size
        waiting = dict(enumerate(self._connections))
        failures: list[Failure] = []
        deadline: float | None = None
        while waiting:
            ready = wait(
                [*waiting.values(), *(self._processes[rank].sentinel for rank in waiting)],
                None if deadline is None else max(0.0, deadline - time.monotonic()),
            )
            if not ready:
                break
            for rank, connection in list(waiting.items()):
                if connection not in ready and self._processes[rank].sentinel not in ready:
                    continue
                reply = _received(connection, rank, self._processes[rank])
                del waiting[rank]
                results[rank] = reply.result
                if reply.failure is not None:
                    failures.append(reply.failure)
                    deadline = deadline or time.monotonic() + _SETTLE_S
        if failures:
            raise first_cause(failures).error(doing)
        return results

    def _kill(self) -> None:
        for process in self._processes:
            process.kill()  # those that wait for one that failed would wait for ever
        self.close()


def _pickled(request: Request, *, fetch: bool) -> bytes:
    try:
        return pickle.dumps((request, fetch))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        message = (
            f"the launcher cannot send {request.operation} to its workers: {error}; what they are given must pickle: classes at the top "
            "level of an importable module"
        )
        raise UserError(message) from error


def _received(connection: Any, rank: int, process: Any) -> Reply:
    """A reply that is there, or how the process ended."""
    try:
        if connection.poll(0.0 if process.is_alive() else 0.1):
            reply: Reply = connection.recv()
            return reply
    except (EOFError, OSError):
        pass
    process.join(_GOODBYE_S)
    code = process.exitcode
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        how = f"was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
    else:
        how = f"ended by itself with exit code {code}"
    return Reply(failure=Failure.death(rank, how))
