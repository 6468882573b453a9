"""What a Ray actor of the launcher is: one rank's process around `core_rl.workers.worker.Worker`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from core_rl.ports import free_port
from core_rl.workers.group import Failure
from core_rl.workers.worker import Reply, Worker
from core_rl_ray.messages import Message, pack, unpack


@attrs.frozen(kw_only=True)
class Place:
    """Where Ray has put an actor."""

    node: str
    address: str
    gpus: Sequence[str]
    """What CUDA_VISIBLE_DEVICES calls those that are its own."""
    pid: int
    log: str
    """The file on that node with what it prints."""


class RayWorker:
    """It gets its rank after it has started, when all know their nodes. What goes wrong in `run` is told in the reply."""

    def __init__(self, search: Sequence[str], folder: str) -> None:
        """`search` and `folder` are the driver's `sys.path` and working folder; what this node lacks of them is left out."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which decides what ends
        sys.path.extend(path for path in search if path not in sys.path)
        if Path(folder).is_dir():
            os.chdir(folder)
        self._worker = Worker()
        self._rank = -1

    def place(self) -> Place:
        import ray

        context = ray.get_runtime_context()
        gpus = context.get_accelerator_ids().get("GPU", ())
        return Place(
            node=context.get_node_id(),
            address=ray.util.get_node_ip_address(),
            gpus=tuple(gpus),
            pid=os.getpid(),
            log=os.path.realpath("/proc/self/fd/2"),
        )

    def free_port(self, address: str) -> int:
        return free_port(address)

    def begin(self, rank: int, environment: Mapping[str, str]) -> None:
        """Ahead of the first import of torch, which reads the environment."""
        self._rank = rank
        os.environ.update(environment)

    def run(self, message: Message, *, fetch: bool) -> Reply:
        """The message is a `core_rl.workers.worker.Request`, the reply's result a message too: Ray tells less of what does not pickle."""
        try:
            result = self._worker.answer(unpack(message))
            return Reply(result=pack(result) if fetch else None)
        except Exception as error:  # noqa: BLE001 - whatever it is, the driver tells
            return Reply(failure=Failure.of(self._rank, error))
