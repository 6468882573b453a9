"""A server that core-rl starts on this machine: its port, its log file, its start and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import attrs

from core_rl.errors import RunError
from core_rl.serving.replica import ServerLostError

_LOOK_EVERY_S = 0.25
_GOODBYE_S = 15.0
_LAST_LINES = 15
_LAST_BYTES = 2**16


@attrs.define(kw_only=True)
class ServerProcess:
    """`command` is run with `environment` over this process's own. What it prints goes to `log`."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = attrs.field(factory=dict)
    log: Path
    _process: subprocess.Popen[bytes] | None = None

    async def start(self, ready: Callable[[], Awaitable[None]], *, timeout_s: float) -> None:
        """Returns when `ready` does not raise `ServerLostError` any more.

        Raises:
            RunError: the server ended, or was not ready in time; the last lines of its log are in it.
        """
        process = self._process = self._spawn()
        deadline = time.monotonic() + timeout_s
        while True:
            with contextlib.suppress(ServerLostError, TimeoutError):
                async with asyncio.timeout(max(deadline - time.monotonic(), 0.0)):
                    await ready()
                return
            if process.poll() is not None:
                message = (
                    f"rollout_engine: {self.name} ended with exit code {process.returncode} before it was ready{self.words()}"
                )
                raise RunError(message)
            if time.monotonic() > deadline:
                await self.stop()
                message = f"rollout_engine.start_timeout_s: {self.name} was not ready after {timeout_s:g} s{self.words()}"
                raise RunError(message)
            await asyncio.sleep(_LOOK_EVERY_S)

    def _spawn(self) -> subprocess.Popen[bytes]:
        keeper = [sys.executable, "-P", str(Path(__file__).with_name("keeper.py")), str(os.getpid()), *self.command]
        environment = {**os.environ, **self.environment}
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("ab") as out:
                return subprocess.Popen(  # noqa: S603 - what the run file says
                    keeper, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment
                )
        except OSError as error:
            message = f"rollout_engine: {self.name} cannot be started: {error}"
            raise RunError(message) from error

    @property
    def exit_code(self) -> int | None:
        """None while it runs, and before it was started."""
        return None if self._process is None else self._process.poll()

    async def stop(self) -> None:
        """Ask it to end, and see to it that it does. A second time does nothing."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                await asyncio.to_thread(process.wait, _GOODBYE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def words(self) -> str:
        """The last lines of the log, and where it is."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(self.log.stat().st_size - _LAST_BYTES, 0))
                end = file.read().decode(errors="replace")
        except OSError:
            return ""
        lines = [line for line in end.splitlines() if line.strip()]
        return "".join(f"\n    {line[:300]}" for line in lines[-_LAST_LINES:]) + f"\nThe whole log: {self.log}"


def log_folder() -> Path:
    """Where logs of servers go that belong to no run folder."""
    return Path(tempfile.mkdtemp(prefix="core-rl-servers-"))
