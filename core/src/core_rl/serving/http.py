"""JSON over HTTP to one server. What may be otherwise at another server is told apart from what is wrong with the request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from core_rl.errors import PluginError, RunError
from core_rl.serving.replica import ServerLostError


class Client:
    """Connections to one server, made when they are first used in an event loop."""

    def __init__(self, url: str, *, api_key: str | None = None, timeout_s: float = 600.0) -> None:
        self.url = url.rstrip("/")
        self._headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._timeout_s = timeout_s
        self._session: Any = None

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return _parsed(*await self._request("POST", path, body, None))

    async def get(self, path: str) -> Any:
        return _parsed(*await self._request("GET", path, None, None))

    async def touch(self, path: str, *, method: str = "GET", timeout_s: float | None = None) -> None:
        """For routes whose answer says no more than that it came."""
        await self._request(method, path, None, timeout_s)

    async def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None, timeout_s: float | None
    ) -> tuple[str, str]:
        """What was asked, for messages, and what the server answers.

        Raises:
            ServerLostError: no connection, no answer in time, half an answer, or 5xx.
            RunError: any other refusal; the server's words are in it.
        """
        aiohttp = _aiohttp()
        if self._session is None:
            # as many requests as are in flight, and none on a connection that the server is about to close: uvicorn waits for 5 s
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=3.0)
            self._session = aiohttp.ClientSession(connector=connector, headers=self._headers)
        timeout = aiohttp.ClientTimeout(total=timeout_s or self._timeout_s)
        where = f"{method} {self.url}{path}"
        try:
            async with self._session.request(method, self.url + path, json=body, timeout=timeout) as response:
                text, status = await response.text(), response.status
        except TimeoutError as error:
            message = f"{where}: no answer in {timeout.total:g} s"
            raise ServerLostError(message) from error
        except (aiohttp.ClientError, ConnectionError, UnicodeDecodeError) as error:
            message = f"{where}: {type(error).__name__}: {error}"
            raise ServerLostError(message) from error
        if status >= 400:
            kind = ServerLostError if status >= 500 else RunError
            message = f"{where}: {status}: {_words(text)}"
            raise kind(message)
        return where, text

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def _parsed(where: str, text: str) -> Any:
    """JSON, or None for an empty answer."""
    try:
        return json.loads(text) if text.strip() else None
    except ValueError as error:
        message = f"{where}: the answer is not JSON: {text[:80]!r}"
        raise ServerLostError(message) from error


def _words(text: str) -> str:
    """Of a refusal, whatever form it has."""
    try:
        found: Any = json.loads(text)
    except ValueError:
        return text.strip()[:300]
    for key in ("error", "detail", "message"):
        if isinstance(found, Mapping) and key in found:
            found = found[key]
    return str(found)[:300]


def _aiohttp() -> Any:
    try:
        import aiohttp
    except ImportError as error:
        message = "rollout_engine: a server is talked to by aiohttp, which is not installed: pip install aiohttp"
        raise PluginError(message) from error
    return aiohttp
