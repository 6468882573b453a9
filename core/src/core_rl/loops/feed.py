"""The order in which rows are used: every epoch is its own shuffle, and a position is all there is to save."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Generic, TypeVar

from core_rl.data.sample import Prompt
from core_rl.errors import DataError
from core_rl.seeds import derive

Item = TypeVar("Item")


class RowFeed(Generic[Item]):
    """Rows without end, shuffled anew in every epoch. `position` counts the rows handed out since the start."""

    def __init__(self, rows: Sequence[Item], *, seed: int, position: int = 0) -> None:
        if len(rows) == 0:
            message = "data: the data set is empty, so there is nothing to train on"
            raise DataError(message)
        self._rows = rows
        self._seed = seed
        self._epoch = -1
        self._order: list[int] = []
        self.position = position

    def next(self, count: int) -> list[Item]:
        """The next `count` rows; an epoch's end falls anywhere among them."""
        taken = [self._at(self.position + offset) for offset in range(count)]
        self.position += count
        return taken

    @property
    def epoch(self) -> float:
        """Passes over the data so far, as a fraction."""
        return self.position / len(self._rows)

    def _at(self, position: int) -> Item:
        epoch, index = divmod(position, len(self._rows))
        if epoch != self._epoch:
            self._order = list(range(len(self._rows)))
            random.Random(derive(self._seed, "epoch", epoch)).shuffle(self._order)  # noqa: S311 — an order, not a secret
            self._epoch = epoch
        return self._rows[self._order[index]]


class PromptFeed(RowFeed[Prompt]):
    """The rows of an online run."""
