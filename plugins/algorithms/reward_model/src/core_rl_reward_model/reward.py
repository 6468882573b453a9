"""A trained reward model as a reward: the score of prompt and completion together.

Calls that wait while a forward pass runs go into the next one together. Scores do not depend on who was in the batch, but for rounding.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from core_rl_reward_model.scorer import model_scorer

if TYPE_CHECKING:
    from core_rl.data.records import Text
    from core_rl.data.sample import Sample
    from core_rl_reward_model.config import RewardModelRewardConfig
    from core_rl_reward_model.scorer import ModelScorer


class RewardModelReward:
    """A reward. The model is loaded when it is built, so that no sample's time-out pays for it."""

    def __init__(self, options: RewardModelRewardConfig) -> None:
        self._scorer = model_scorer(options)
        self._batch_size = options.batch_size
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue] = WeakKeyDictionary()
        self._lock = threading.Lock()

    async def score(self, sample: Sample) -> float:
        prompt, completion = _sides(sample)
        tokens = self._scorer.tokens(prompt, completion, name=sample.prompt.id)
        loop = asyncio.get_running_loop()
        with self._lock:
            queue = self._queues.setdefault(loop, _Queue(self._scorer, self._batch_size))
        return await queue.score(tokens)


class _Queue:
    """Of one event loop: only its own loop may answer who waits in it, and another thread may run another loop at the same time."""

    def __init__(self, scorer: ModelScorer, batch_size: int) -> None:
        self._scorer = scorer
        self._batch_size = batch_size
        self._waiting: list[tuple[Sequence[int], asyncio.Future[float]]] = []
        self._worker: asyncio.Task[None] | None = None

    async def score(self, tokens: Sequence[int]) -> float:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[float] = loop.create_future()
        self._waiting.append((tokens, answer))
        if self._worker is None:
            self._worker = loop.create_task(self._work())
        return await answer

    async def _work(self) -> None:
        """Batches until nobody waits. Who has gone, by a time-out, is passed over."""
        try:
            while self._waiting:
                taken, self._waiting = self._waiting[: self._batch_size], self._waiting[self._batch_size :]
                here = [one for one in taken if not one[1].done()]
                if not here:
                    continue
                try:
                    scores = await asyncio.to_thread(self._scorer, [tokens for tokens, _ in here])
                except Exception as error:  # noqa: BLE001 - it belongs to the samples, whose rewards have failed
                    for _, answer in here:
                        if not answer.done():
                            answer.set_exception(error)
                    continue
                for (_, answer), score in zip(here, scores, strict=True):
                    if not answer.done():
                        answer.set_result(score)
        finally:  # a task knows its loop, which is not to be kept
            self._worker = None
            self._waiting.clear()


def _sides(sample: Sample) -> tuple[Text, Text]:
    if sample.prompt.messages is None:
        return sample.prompt.text or "", sample.completion_text
    return sample.prompt.messages, ({"role": "assistant", "content": sample.completion_text},)
