from __future__ import annotations

import random
from collections.abc import Sequence

from core_rl.data.sample import Prompt
from core_rl.errors import DataError
from nudge_rl.config import SumsConfig


class Sums:
    def __init__(self, options: SumsConfig) -> None:
        self.options = options

    def load(self, split: str, seed: int) -> Sequence[Prompt]:
        numbers = range(self.options.largest + 1)
        prompts = [Prompt(id=f"{a}+{b}", text=f"{a}+{b}=", answer=str(a + b)) for a in numbers for b in numbers]
        random.Random(seed).shuffle(prompts)
        held_out = prompts[: self.options.held_out]
        if split == "eval" and not held_out:
            raise DataError("sums: held_out is 0, so that there is nothing to evaluate on")
        return held_out if split == "eval" else prompts[self.options.held_out :]
