"""Rewards: plain, async, with facts, and one that hands out an awaitable."""

from __future__ import annotations

from collections.abc import Awaitable

from core_rl.data.sample import Sample
from core_rl.roles.scoring import Reward, RewardOutcome


class Plain:
    def score(self, sample: Sample) -> float:
        return float(sample.completion_text == sample.prompt.answer)


class Whole:
    def score(self, sample: Sample) -> int:
        return sample.num_generated


class WithFacts:
    def score(self, sample: Sample) -> RewardOutcome:
        return RewardOutcome(value=1.0, info={"why": sample.finish_reason})


class Async:
    async def score(self, sample: Sample) -> float:
        return len(sample.completion_text) / 100


class AsyncWithFacts:
    async def score(self, sample: Sample) -> RewardOutcome:
        return RewardOutcome(value=0.5, info=dict(sample.prompt.metadata))


class Either:
    def score(self, sample: Sample) -> RewardOutcome | Awaitable[RewardOutcome]:
        return AsyncWithFacts().score(sample) if sample.truncated else WithFacts().score(sample)


rewards: list[Reward] = [Plain(), Whole(), WithFacts(), Async(), AsyncWithFacts(), Either()]
