"""A server that speaks HTTP: one that core-rl starts on this machine, or one that runs at a URL."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from core_rl.errors import UserError
from core_rl.ports import free_port
from core_rl.serving.http import Client
from core_rl.serving.options import in_environment
from core_rl.serving.process import ServerProcess, log_folder
from core_rl.serving.replica import ServerLostError

if TYPE_CHECKING:
    from core_rl.serving.config import ServerConfig


_SILENT = 3
"""Looks in a row, at a server that is lost already."""


class HttpServer(ABC):
    """The life of a `core_rl.serving.replica.Replica`; what it is asked is its subclass's."""

    kind: ClassVar[str]
    """For messages and logs: vLLM."""
    module: ClassVar[str]
    """What Python runs, which takes its options by `core_rl.serving.options.given_options`."""
    environment: ClassVar[Mapping[str, str]] = {}

    def __init__(self, options: ServerConfig, *, url: str | None, number: int = 0) -> None:
        self.options = options
        self.port: int | None = None
        if url is None:
            self.port = free_port(options.host)
            url = f"http://{options.host}:{self.port}"
        self.name = f"{self.kind} at {url}"
        self.client = Client(url, api_key=options.api_key, timeout_s=options.request_timeout_s)
        self._number = number
        self.restarts = 0
        """How often it was started again."""
        self._process: ServerProcess | None = None
        self._silent = 0

    @abstractmethod
    def arguments(self) -> Mapping[str, Any]:
        """What a server that is started here is given."""

    async def ready(self) -> None:
        """Returns when it answers. Starts it, unless it runs at a URL."""
        if self.port is None:
            await self.health()
            return
        options = self.options
        folder = log_folder() if options.log_dir is None else Path(options.log_dir)
        self._process = ServerProcess(
            name=self.name,
            command=[options.python or sys.executable, "-m", self.module],
            environment={**self.environment, **in_environment(self.arguments()), **options.env},
            log=folder / f"{self.kind.lower()}-{self._number}.log",
        )
        await self._process.start(self.health, timeout_s=options.start_timeout_s)

    async def health(self) -> None:
        await self.client.touch("/health", timeout_s=max(10.0, self.options.health_every_s))

    async def recover(self) -> None:
        """One that was started here is started again when it has ended, or lives and does not answer.

        Raises:
            UserError: that was too often.
        """
        process = self._process
        if process is None or (process.exit_code is None and await self._answers()):
            return
        if self.restarts >= self.options.restarts:
            message = f"it has ended, or has not answered, {self.restarts + 1} times{process.words()}"
            raise UserError(message)
        self.restarts += 1
        self._silent = 0
        await process.stop()
        await self.client.close()
        await process.start(self.health, timeout_s=self.options.start_timeout_s)

    async def _answers(self) -> bool:
        """Or may do so yet: one look without an answer proves nothing."""
        try:
            await self.health()
        except ServerLostError:
            self._silent += 1
        else:
            self._silent = 0
        return self._silent < _SILENT

    async def close(self) -> None:
        await self.client.close()
        if self._process is not None:
            await self._process.stop()
