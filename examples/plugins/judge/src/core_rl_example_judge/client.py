"""One question to a chat-completions API: a bound on time, and further tries where they may help.

A session lasts for one try: a reward is never told that the run is over, so that nobody would close a longer one.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import email.utils
import json
import os
import random
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import aiohttp

from core_rl.errors import PluginError
from core_rl_example_judge.verdict import JudgeError

if TYPE_CHECKING:
    from core_rl_example_judge.config import JudgeConfig

_AGAIN = frozenset({408, 429, 500, 502, 503, 504})


class _LaterError(Exception):
    """This try failed and the next one may not. `wait_s` is what the server asked for."""

    def __init__(self, message: str, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.wait_s = wait_s


def api_key(options: JudgeConfig) -> str | None:
    """The key out of the environment. It is read for every request and kept nowhere: not in logs, and not in pickles.

    Raises:
        PluginError: the variable is not set.
    """
    if options.api_key_env is None:
        return None
    key = os.environ.get(options.api_key_env, "").strip()
    if not key:
        message = f"reward judge: api_key_env names the environment variable {options.api_key_env}, which is not set"
        raise PluginError(message)
    return key


class Client:
    """Asks. A wait before a further try holds no slot."""

    def __init__(self, options: JudgeConfig) -> None:
        self._options = options
        self._url = options.url.rstrip("/") + "/chat/completions"
        self._random = random.Random()  # noqa: S311 - spreads tries over time; nothing is secret

    async def ask(self, messages: Sequence[dict[str, str]], slot: AbstractAsyncContextManager[Any]) -> str:
        """The text of the reply.

        Raises:
            JudgeError: no reply after all tries, or one that no further try would mend.
        """
        options, key = self._options, api_key(self._options)
        body = {"model": options.model, "messages": list(messages), "temperature": 0, "max_tokens": options.max_tokens}
        for number in range(options.retries + 1):
            try:
                async with slot:
                    return _content(await self._post(body, key))
            except _LaterError as error:
                wait_s = self._wait_s(number, error.wait_s)
                if number == options.retries or wait_s > options.max_wait_s:
                    tries = "1 try" if number == 0 else f"{number + 1} tries"
                    asked = f", which asks to wait {wait_s:g} s (max_wait_s is {options.max_wait_s:g})"
                    message = f"{self._url}: {error} after {tries}{asked if wait_s > options.max_wait_s else ''}"
                    raise JudgeError(message) from None
            await asyncio.sleep(wait_s)
        raise AssertionError

    async def _post(self, body: dict[str, Any], key: str | None) -> str:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        timeout = aiohttp.ClientTimeout(total=self._options.timeout_s)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
                session.post(self._url, json=body, allow_redirects=False) as response,
            ):
                status, text = response.status, await response.text(errors="replace")
                after = response.headers.get("Retry-After")
        except TimeoutError:
            message = f"no answer in {self._options.timeout_s:g} s"
            raise _LaterError(message) from None
        except aiohttp.ClientError as error:
            message = f"{type(error).__name__}: {error}"
            raise _LaterError(message) from None
        if status == 200:
            return text
        words = _words(text, key)
        if status in _AGAIN:
            raise _LaterError(f"{status} {words}".strip(), _seconds(after))
        message = f"{self._url}: {status} {words}".strip()
        raise JudgeError(message)

    def _wait_s(self, number: int, asked: float | None) -> float:
        """What the server asked for, or a time that doubles, with a part of chance so that not all come back at once."""
        if asked is not None:
            return asked
        doubled = min(self._options.backoff_s * 2.0**number, self._options.max_wait_s)
        return doubled * self._random.uniform(0.5, 1.0)


def _content(text: str) -> str:
    try:
        content = json.loads(text)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError):
        content = None
    if not isinstance(content, str):
        message = f"the answer is no chat completion; it begins {text[:80]!r}"
        raise JudgeError(message)
    return content


def _words(text: str, key: str | None) -> str:
    """The beginning of what a server says of a failure, without the key if it repeats it."""
    shown = text if key is None else text.replace(key, "***")
    return " ".join(shown.split())[:200]


def _seconds(header: str | None) -> float | None:
    """`Retry-After`: seconds, or a date. Anything else counts as not said."""
    if header is None:
        return None
    try:
        return max(0.0, float(header)) if header.strip().isdigit() else _until(header)
    except (TypeError, ValueError):
        return None


def _until(header: str) -> float:
    date = email.utils.parsedate_to_datetime(header)
    now = dt.datetime.now(dt.UTC)
    return max(0.0, (date.replace(tzinfo=date.tzinfo or dt.UTC) - now).total_seconds())
