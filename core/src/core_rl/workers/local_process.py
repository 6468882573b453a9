"""A worker process of this machine: what it does from its start to its end."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from core_rl.workers.group import Failure
from core_rl.workers.worker import Reply, Worker

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_LOOK_EVERY_S = 1.0


def serve(connection: Connection, *, rank: int, environment: Mapping[str, str], threads: int, driver: int) -> None:
    """Answer until there are no more requests, each a pickle of the `Request` and of whether its result is to be sent back.

    A reply goes by shared memory where it has tensors.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the driver decides what ends
    os.environ.update(environment)
    threading.Thread(target=_end_with, args=(driver,), daemon=True).start()
    import torch

    torch.set_num_threads(threads)
    worker = Worker()
    while True:
        try:
            request, fetch = pickle.loads(connection.recv_bytes())  # noqa: S301 - from the driver, by a pipe of its own
        except (EOFError, OSError):
            os._exit(0)  # at once: a process group that is still joined would wait for its peers
        except Exception as error:  # noqa: BLE001 - a class that only the driver can import
            connection.send(Reply(failure=Failure.of(rank, error)))
            continue
        try:
            result = worker.answer(request)
            connection.send(Reply(result=result if fetch else None))
        except Exception as error:  # noqa: BLE001 - whatever it is, the driver tells
            connection.send(Reply(failure=Failure.of(rank, error)))


def _end_with(driver: int) -> None:
    """Leave when the driver is gone, however it went and whatever this process waits for."""
    while os.getppid() == driver:
        time.sleep(_LOOK_EVERY_S)
    os._exit(1)
