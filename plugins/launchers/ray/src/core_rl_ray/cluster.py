"""The cluster of a run: one that it starts on this machine, or one that it joins. It leaves it as it was."""

from __future__ import annotations

import logging
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from core_rl.errors import UserError

if TYPE_CHECKING:
    from core_rl_ray.config import RayLauncherConfig

_ANSWER_S = 5.0


class Cluster:
    """What this process is connected to: Ray allows one cluster at a time, so that the launchers of a run share it."""

    joined: ClassVar[Cluster | None] = None

    def __init__(self, address: str | None, *, connected: bool) -> None:
        self.address = address
        self.own = connected and address is None
        """Started by us, on this machine alone."""
        self._connected = connected  # else somebody in this process had done so before, and is to end it
        self._users = 0

    def nodes(self) -> list[Mapping[str, float]]:
        """What each node has in all."""
        import ray

        return [node["Resources"] for node in ray.nodes() if node["Alive"]]

    def gpus(self) -> int:
        return int(sum(node.get("GPU", 0) for node in self.nodes()))

    def enter(self) -> Cluster:
        self._users += 1
        return self

    def leave(self) -> None:
        """The last one out ends the connection, and with it a cluster that we have started."""
        self._users -= 1
        if self._users == 0:
            Cluster.joined = None
            if self._connected:
                import ray

                ray.shutdown()


def join(options: RayLauncherConfig) -> Cluster:
    """Connect to the cluster at `options.address`, start one where that is null; take the one that this process is in already.

    Raises:
        UserError: there is no cluster at the address, or it does not take this process; another launcher has another address.
    """
    import ray

    if Cluster.joined is None:
        connected = not ray.is_initialized()
        if connected:
            with _own_handlers():
                _connect(options)
        Cluster.joined = Cluster(options.address, connected=connected)
    elif Cluster.joined.address != options.address:
        ours, theirs = options.address or "null", Cluster.joined.address or "null"
        message = (
            f"launcher.address: {ours}, and another launcher of this run has {theirs}: a process is in one Ray cluster at a time, "
            "give both the same"
        )
        raise UserError(message)
    return Cluster.joined.enter()


def _connect(options: RayLauncherConfig) -> None:

    # It tells of tokens, which is as it should be: nobody else on the network can use the cluster.
    logging.getLogger("ray._private.authentication.authentication_token_setup").setLevel(logging.ERROR)
    quiet: dict[str, Any] = {"logging_level": "WARNING", "log_to_driver": options.worker_output, "namespace": options.namespace}
    if options.address is None:
        memory = None if options.object_store_mb is None else options.object_store_mb * 2**20
        # `local`: also where RAY_ADDRESS names another
        _start(address="local", object_store_memory=memory, include_dashboard=False, **quiet)
        return
    if options.address != "auto":
        _knock(options.address)
    _start(address=options.address, **quiet)


def _start(address: str, **settings: Any) -> None:
    import ray

    try:
        ray.init(address, **settings)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        ray.shutdown()  # what of it stands half-way
        what = "start a Ray cluster" if address == "local" else f"join the Ray cluster at {address}"
        message = f"launcher: cannot {what}: {_reason(error)}"
        raise UserError(message) from error


def _knock(address: str) -> None:
    """Ray itself tries for a minute or more."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S).close()
    except (OSError, OverflowError) as error:
        message = (
            f"launcher.address: nothing answers at {address} ({error}): is it the address that `ray start --head` has printed?"
        )
        raise UserError(message) from error


def _reason(error: BaseException) -> str:
    """The first of the errors that led to one another, without the advice that follows it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(line.strip() for line in str(error).strip().splitlines()[:3])


@contextmanager
def _own_handlers() -> Iterator[None]:
    """Keep what SIGTERM does in this process, and its hook for exceptions: Ray takes both."""
    hook, main = sys.excepthook, threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        sys.excepthook = hook
        if main:
            signal.signal(signal.SIGTERM, handler)
