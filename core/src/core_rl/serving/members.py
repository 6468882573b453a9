"""Which server takes a request: the least loaded one, but for those that have its prompt in their cache already."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Sequence

import attrs

from core_rl.serving.replica import Replica

_PREFIX = 64
"""So many tokens of a prompt tell whether a server has seen it."""
_REMEMBERED = 65536


@attrs.define(eq=False, kw_only=True)
class Member:
    """A server and what the pool knows of it."""

    replica: Replica
    up: bool = False
    fresh: bool = True
    """It serves the weights of the last update."""
    updating: bool = False
    """It takes part in the update that has begun, and has got all of it so far."""
    torn: bool = False
    """It was lost in the middle of an update: its weights may be of two versions, whatever it says, until the next one."""
    running: int = 0
    """Samples in flight."""
    lives: int = 0
    """How often it has come back."""
    misses: int = 0
    """Looks in a row that it did not answer."""
    trouble: str = ""
    """Why it was lost."""
    lost: asyncio.Event = attrs.field(factory=asyncio.Event)

    @property
    def usable(self) -> bool:
        return self.up and self.fresh

    @property
    def identity(self) -> str:
        return f"{self.replica.name}#{self.lives}"

    def fall(self, why: str) -> None:
        """What is in flight there is given up."""
        if self.up:
            self.up, self.trouble = False, why
            self.torn, self.updating = self.torn or self.updating, False
            self.lost.set()

    def rise(self, *, fresh: bool) -> None:
        self.up, self.misses = True, 0
        self.fresh = fresh and not self.torn
        self.lives += 1
        self.lost = asyncio.Event()

    def state(self) -> str:
        if self.up:
            return f"{self.replica.name}: up" + ("" if self.fresh else ", but with weights of another version")
        return f"{self.replica.name}: lost: {self.trouble}"


class Router:
    """Prefix affinity within bounds: a server is preferred while it has at most `slack` more to do than the least loaded one."""

    def __init__(self, *, slack: int = 16) -> None:
        self._slack = slack
        self._homes: OrderedDict[tuple[int, ...], Member] = OrderedDict()

    def choose(self, members: Iterable[Member], prompt: Sequence[int]) -> Member | None:
        usable = [member for member in members if member.usable]
        if not usable:
            return None
        key = tuple(prompt[:_PREFIX])
        least = min(usable, key=lambda member: member.running)
        home = self._homes.get(key)
        chosen = home if home is not None and home.usable and home.running <= least.running + self._slack else least
        self._homes[key] = chosen
        self._homes.move_to_end(key)
        if len(self._homes) > _REMEMBERED:
            self._homes.popitem(last=False)
        return chosen
