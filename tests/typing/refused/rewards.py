"""Rewards that the scorer could make nothing of."""

from __future__ import annotations

from core_rl.data.sample import Sample
from core_rl.roles.scoring import Reward


class Text:
    def score(self, sample: Sample) -> str:
        return sample.completion_text


class OfText:
    def score(self, completion: str) -> float:
        return len(completion)


class AsyncText:
    async def score(self, sample: Sample) -> str:
        return sample.completion_text


class Call:
    def __call__(self, sample: Sample) -> float:
        return float(sample.completion_txt == "8")  # E: maybe "completion_text"


class Nothing:
    def score(self, sample: Sample) -> float | None:
        return None if sample.truncated else 1.0


text: Reward = Text()  # E: variable has type "Reward"
of_text: Reward = OfText()  # E: variable has type "Reward"
async_text: Reward = AsyncText()  # E: variable has type "Reward"
call: Reward = Call()  # E: variable has type "Reward"
nothing: Reward = Nothing()  # E: variable has type "Reward"
