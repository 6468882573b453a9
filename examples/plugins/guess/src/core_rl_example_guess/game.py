"""The rules, without a model: a hidden number, guesses, hints."""

from __future__ import annotations

import re
from typing import Literal

import attrs

Hint = Literal["higher", "lower", "invalid"]

_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


@attrs.define
class Game:
    """One game. `found` is the number of the guess that was right, from 1 on."""

    secret: int
    turns: int
    guesses: int = 0
    found: int | None = None

    @property
    def over(self) -> bool:
        return self.found is not None or self.guesses == self.turns

    def guess(self, text: str) -> Hint | None:
        """The hint for a guess; None for one that is right. A turn that is no number counts as a guess too."""
        assert not self.over
        self.guesses += 1
        if not _NUMBER.fullmatch(text.strip()):
            return "invalid"
        number = int(text)
        if number == self.secret:
            self.found = self.guesses
            return None
        return "higher" if number < self.secret else "lower"
