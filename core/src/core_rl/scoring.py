"""Rewards of a sample: each runs under a time-out, and what goes wrong with one is a state of the sample, not of the run."""

from __future__ import annotations

import asyncio
import inspect
import math
import sys
import time
from collections.abc import Sequence
from typing import Any, Literal
from weakref import WeakKeyDictionary

from core_rl.daemon_threads import DaemonThreads, OverdueError, within
from core_rl.data.sample import RewardPart, Sample
from core_rl.errors import RewardError
from core_rl.reward_metrics import SPAN, reward_metrics
from core_rl.roles.scoring import Reward, RewardOutcome

__all__ = ["MAX_ABANDONED", "MAX_WARNINGS", "Scorer", "reward_metrics"]

MAX_ABANDONED = 64
"""So many calls of plain rewards that never came back end the run: each still holds a thread."""
MAX_WARNINGS = 20
"""So many different errors are shown; the sample log has them all."""


class Scorer:
    """Scores samples by a weighted sum of rewards.

    A plain `score` runs in a thread, an async one in the event loop; at most `max_concurrency` plain ones at a time, and the
    time-out of one begins when its thread does. A reward fails when it raises, takes too long, or answers with anything but
    a finite number. Then, by `on_failure`: `drop` leaves the sample's reward None, `zero` counts the failed part as 0, `stop` raises.
    """

    def __init__(
        self,
        rewards: Sequence[tuple[str, float, Reward]],
        *,
        timeout_s: float,
        on_failure: Literal["drop", "zero", "stop"],
        max_concurrency: int = 16,
    ) -> None:
        labels = _labels([name for name, _, _ in rewards])
        self._rewards = [(label, weight, reward) for label, (_, weight, reward) in zip(labels, rewards, strict=True)]
        self._timeout_s = timeout_s
        self._on_failure = on_failure
        self._max_concurrency = max_concurrency
        self._threads = DaemonThreads("reward")
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._abandoned = 0
        self._warned: set[str] = set()

    async def score(self, sample: Sample) -> None:
        """Fill in `sample.reward_parts` and `sample.reward`.

        Raises:
            RewardError: a reward failed and the policy is `stop`, or too many calls hang.
        """
        begin = time.perf_counter()
        parts = await asyncio.gather(*(self._part(label, weight, reward, sample) for label, weight, reward in self._rewards))
        sample.metadata[SPAN] = (begin, time.perf_counter())
        sample.reward_parts = {label: part for (label, _, _), part in zip(self._rewards, parts, strict=True)}
        failed = any(part.value is None for part in parts)
        total = math.fsum(part.weight * part.value for part in parts if part.value is not None)
        sample.reward = None if failed and self._on_failure == "drop" else total

    async def _part(self, label: str, weight: float, reward: Reward, sample: Sample) -> RewardPart:
        outcome: Any = None
        try:
            outcome = await self._outcome(reward, sample)
        except OverdueError:
            self._check_abandoned(label)
            number: float | str = f"no answer within {self._timeout_s:g} s"
        except Exception as error:  # noqa: BLE001 - a reward may raise anything; the sample keeps it
            number = f"{type(error).__name__}: {error}"
        else:
            number = _number(outcome.value if isinstance(outcome, RewardOutcome) else outcome)
        if isinstance(number, str):
            self._complain(label, number)
            return RewardPart(value=None, weight=weight, error=number)
        return RewardPart(value=number, weight=weight, info=outcome.info if isinstance(outcome, RewardOutcome) else {})

    async def _outcome(self, reward: Reward, sample: Sample) -> Any:
        """What the reward answers. Raises `OverdueError`, or what the reward raises."""
        if inspect.iscoroutinefunction(reward.score):
            return await within(reward.score(sample), self._timeout_s)
        async with self._slot():
            try:
                outcome = await self._threads.call(lambda: reward.score(sample), self._timeout_s)
            except OverdueError:
                self._abandoned += 1
                raise
        if inspect.isawaitable(outcome):  # a plain function that hands out a coroutine
            return await within(outcome, self._timeout_s)
        return outcome

    def _slot(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        return self._slots.setdefault(loop, asyncio.Semaphore(self._max_concurrency))

    def _check_abandoned(self, label: str) -> None:
        if self._abandoned > MAX_ABANDONED:
            message = (
                f"rewards: {self._abandoned} calls never came back, the last of {label}; mend it or raise run.reward_timeout_s"
            )
            raise RewardError(message)

    def _complain(self, label: str, error: str) -> None:
        if self._on_failure == "stop":
            message = f"rewards: {label} failed: {error} (run.on_reward_failure is stop)"
            raise RewardError(message)
        text = f"reward {label} failed: {error}"
        if text in self._warned or len(self._warned) > MAX_WARNINGS:
            return
        self._warned.add(text)
        last = len(self._warned) > MAX_WARNINGS
        print(f"core-rl: warning: {'further errors of rewards are not shown' if last else text}", file=sys.stderr)


def _number(value: Any) -> float | str:
    """The number that an answer is, or why it is none."""
    wrong = f"returned {value!r:.80} ({type(value).__name__}), expected a number"
    if isinstance(value, str | bytes) or not hasattr(value, "__float__"):
        return wrong
    try:
        number = float(value)
    except Exception:  # noqa: BLE001 - a tensor of several elements, or any other object's own
        return wrong
    return number if math.isfinite(number) else f"returned {number}, expected a finite number"


def _labels(names: Sequence[str]) -> list[str]:
    """Names for metrics: `plugin/name` and `module:Object` by their last part, a name's second use as `name_2`."""
    labels: list[str] = []
    for name in names:
        short = name.rpartition("/")[2].rpartition(":")[2]
        label, count = short, 1
        while label in labels:
            count += 1
            label = f"{short}_{count}"
        labels.append(label)
    return labels
