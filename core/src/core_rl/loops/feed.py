"""The order in which prompts are used: every epoch is its own shuffle, and a position is all there is to save."""

from __future__ import annotations

import random
from collections.abc import Sequence

from core_rl.data.sample import Prompt
from core_rl.errors import DataError
from core_rl.seeds import derive


class PromptFeed:
    """Prompts without end, shuffled anew in every epoch. `position` counts the prompts handed out since the start."""

    def __init__(self, prompts: Sequence[Prompt], *, seed: int, position: int = 0) -> None:
        if len(prompts) == 0:
            message = "data: the data set is empty, so there is nothing to train on"
            raise DataError(message)
        self._prompts = prompts
        self._seed = seed
        self._epoch = -1
        self._order: list[int] = []
        self.position = position

    def next(self, count: int) -> list[Prompt]:
        """The next `count` prompts; an epoch's end falls anywhere among them."""
        taken = [self._at(self.position + offset) for offset in range(count)]
        self.position += count
        return taken

    @property
    def epoch(self) -> float:
        """Passes over the data so far, as a fraction."""
        return self.position / len(self._prompts)

    def _at(self, position: int) -> Prompt:
        epoch, index = divmod(position, len(self._prompts))
        if epoch != self._epoch:
            self._order = list(range(len(self._prompts)))
            random.Random(derive(self._seed, "epoch", epoch)).shuffle(self._order)  # noqa: S311 — an order, not a secret
            self._epoch = epoch
        return self._prompts[self._order[index]]
