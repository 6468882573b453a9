"""The reward `judge`: a model behind an API reads the task and the answer and gives a score."""

from __future__ import annotations

import asyncio
import hashlib
import json
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import attrs

from core_rl.roles.scoring import RewardOutcome
from core_rl_example_judge.client import Client, api_key
from core_rl_example_judge.memo import Memo
from core_rl_example_judge.verdict import messages, score

if TYPE_CHECKING:
    from core_rl.data.sample import Sample
    from core_rl_example_judge.config import JudgeConfig

_SHOWN = 1000
"""So many characters of a reply are kept as the outcome's `info`."""


@attrs.frozen
class _Lane:
    """What belongs to one event loop."""

    slots: asyncio.Semaphore
    memo: Memo[RewardOutcome]


class Judge:
    """The judge's score over `max_score`. Async: many samples wait at once, and `max_concurrency` requests are in flight."""

    def __init__(self, options: JudgeConfig) -> None:
        api_key(options)  # a key that is missing ends the run before a model is loaded
        self._options = options
        self._client = Client(options)
        self._lanes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Lane] = WeakKeyDictionary()

    def __reduce__(self) -> tuple[type[Judge], tuple[JudgeConfig]]:
        return Judge, (self._options,)

    async def score(self, sample: Sample) -> RewardOutcome:
        lane = self._lane()
        asked = messages(self._options, sample)
        key = hashlib.sha256(json.dumps(asked).encode()).digest()
        return await lane.memo.get(key, partial(self._judged, asked, lane))

    async def _judged(self, asked: list[dict[str, str]], lane: _Lane) -> RewardOutcome:
        reply = await self._client.ask(asked, lane.slots)
        value = score(reply, self._options.max_score) / self._options.max_score
        return RewardOutcome(value=value, info={"judge": reply[-_SHOWN:]})

    def _lane(self) -> _Lane:
        loop = asyncio.get_running_loop()
        if loop not in self._lanes:
            self._lanes[loop] = _Lane(asyncio.Semaphore(self._options.max_concurrency), Memo(self._options.cache_size))
        return self._lanes[loop]
