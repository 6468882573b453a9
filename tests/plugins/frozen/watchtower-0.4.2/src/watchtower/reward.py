from __future__ import annotations

import asyncio

import attrs

from core_rl.data.sample import Sample
from core_rl.roles.scoring import RewardOutcome


@attrs.frozen(kw_only=True)
class BriefConfig:
    cost: float = attrs.field(default=0.1, metadata={"help": "taken away for each character"})


class Brief:
    def __init__(self, options: BriefConfig) -> None:
        self.options = options

    async def score(self, sample: Sample) -> RewardOutcome:
        await asyncio.sleep(0)
        text = sample.completion_text
        right = text.startswith(str(sample.prompt.answer))
        return RewardOutcome(
            value=float(right) - self.options.cost * len(text), info={"right": right, "end": sample.finish_reason}
        )
