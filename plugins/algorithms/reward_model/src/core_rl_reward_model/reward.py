"""A trained reward model as a reward: the score of prompt and completion together.

Calls that wait while a forward pass runs go into the next one together. Scores do not depend on who was in the batch, but for rounding.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from core_rl_reward_model.scorer import model_scorer

if TYPE_CHECKING:
    from core_rl.data.records import Text
    from core_rl.data.sample import Sample
    from core_rl_reward_model.config import RewardModelRewardConfig

_Waiting = tuple[Sequence[int], "asyncio.Future[float]"]


class RewardModelReward:
    """A reward. The model is loaded when it is built, so that no sample's time-out pays for it."""

    def __init__(self, options: RewardModelRewardConfig) -> None:
        self._scorer = model_scorer(options)
        self._batch_size = options.batch_size
        self._waiting: list[_Waiting] = []
        self._worker: asyncio.Task[None] | None = None

    async def score(self, sample: Sample) -> float:
        prompt, completion = _sides(sample)
        tokens = self._scorer.tokens(prompt, completion, name=sample.prompt.id)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[float] = loop.create_future()
        self._waiting.append((tokens, answer))
        if self._worker is None or self._worker.done() or self._worker.get_loop() is not loop:
            self._worker = loop.create_task(self._work())
        return await answer

    async def _work(self) -> None:
        """Batches until nobody waits. Who has gone (a time-out, another event loop that ended) is passed over."""
        while self._waiting:
            taken, self._waiting = self._waiting[: self._batch_size], self._waiting[self._batch_size :]
            here = [one for one in taken if not one[1].done() and one[1].get_loop() is asyncio.get_running_loop()]
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


def _sides(sample: Sample) -> tuple[Text, Text]:
    if sample.prompt.messages is None:
        return sample.prompt.text or "", sample.completion_text
    return sample.prompt.messages, ({"role": "assistant", "content": sample.completion_text},)
