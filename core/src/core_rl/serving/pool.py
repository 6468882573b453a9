"""A rollout engine of one or several servers. A lost server's requests go to another one, whole: nothing is lost or counted twice.

A server that comes back takes requests again when it serves the weights of the last update; one that was started anew waits for the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from core_rl.errors import RunError, UserError, first_of
from core_rl.fingerprint import same
from core_rl.serving.answers import checked
from core_rl.serving.members import Member, Router
from core_rl.serving.replica import Bucket, ServerLostError
from core_rl.weights.segment import Segment

if TYPE_CHECKING:
    from core_rl.roles.rollout import Completion, GenerateRequest, PauseMode, ScoreRequest, Scores
    from core_rl.serving.config import PoolConfig
    from core_rl.serving.replica import Replica
    from core_rl.weights.buckets import TensorSpec
    from core_rl.weights.group import GroupPlace

Result = TypeVar("Result")
_MISSES = 3
"""Looks in a row without an answer that make a server lost."""


class PoolEngine:
    """A `core_rl.roles.rollout.RolloutEngine`, and every receiver of weights beside it that its replicas are."""

    def __init__(self, replicas: Sequence[Replica], options: PoolConfig) -> None:
        self.options = options
        self.version: int | None = None
        self._members: list[Member] = []
        self.add(replicas)
        self._router = Router()
        self._names: dict[str, str] = {}
        self._segments = (Segment(), Segment())
        self._reading: asyncio.Task[None] | None = None
        self._turn = 0
        self._watches: list[asyncio.Task[None]] = []
        self._change = asyncio.Event()
        self._counters: dict[str, float] = {}
        self._busy_since: float | None = None
        self._in_flight = 0
        self._asleep = False

    async def start(self) -> None:
        """All at once; each one must be ready."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for member in self._members:
                    tasks.create_task(member.replica.start())
        except BaseExceptionGroup as errors:
            raise first_of(errors) from None
        for member in self._members:
            member.rise(fresh=True)
        self._watches = [asyncio.create_task(self._look_after(member)) for member in self._members]

    def add(self, replicas: Sequence[Replica]) -> None:
        """Before `start`."""
        self._members += [Member(replica=replica) for replica in replicas]

    async def generate(self, request: GenerateRequest) -> list[Completion]:
        """Raises `RunError` when it was tried often enough, or no server is there."""

        async def ask(replica: Replica, request_id: str) -> list[Completion]:
            own = attrs.evolve(request, id=request_id)
            return checked(own, await replica.generate(own))

        completions = await self._ask(request.id, request.prompt_ids, ask, weight=request.n)
        self._count("rollout/tokens", sum(len(completion.tokens) for completion in completions))
        return completions

    async def generate_at_each(self, request: GenerateRequest) -> Mapping[str, list[Completion]]:
        """From every server that serves, by its name. One that is lost meanwhile is left out."""
        found: dict[str, list[Completion]] = {}

        async def ask(replica: Replica) -> None:
            found[replica.name] = checked(request, await replica.generate(request))

        await self._everyone(ask, among=[member for member in self._members if member.usable])
        return found

    async def score(self, request: ScoreRequest) -> Scores:
        """Raises `RunError` as `generate` does. For replicas that can."""

        async def ask(replica: Any, request_id: str) -> Scores:
            found: Scores = await replica.score(attrs.evolve(request, id=request_id))
            return found

        return await self._ask(request.id, request.tokens, ask, weight=1)

    async def _ask(
        self, name: str, prompt: Sequence[int], ask: Callable[[Replica, str], Awaitable[Result]], *, weight: int
    ) -> Result:
        """The answer of one server. Another one is asked, under another id, when it is lost."""
        troubles: list[str] = []
        self._begin_work()
        try:
            while True:
                member = await self._member_for(name, prompt)
                self._names[name] = f"{name}#{len(troubles)}" if troubles else name
                life = member.lives
                member.running += weight
                try:
                    return await _unless_lost(member, ask(member.replica, self._names[name]))
                except ServerLostError as error:
                    troubles.append(str(error))
                    if member.lives == life:  # it may have come back already
                        member.fall(str(error))
                    self._count("rollout/retries", 1)
                    if len(troubles) > self.options.retries:
                        message = f"rollout_engine: request {name} failed {len(troubles)} times, last with: {error}"
                        raise RunError(message) from error
                finally:
                    member.running -= weight
        finally:
            self._names.pop(name, None)
            self._end_work()

    async def _member_for(self, name: str, prompt: Sequence[int]) -> Member:
        return await self._found(lambda: self._router.choose(self._members, prompt), f" for request {name}")

    async def _found(self, find: Callable[[], Member | None], purpose: str) -> Member:
        """Waits for it as long as the options allow."""
        deadline = time.monotonic() + self.options.wait_for_server_s
        while True:
            member = find()
            if member is not None:
                return member
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._none_left(purpose)
            self._change.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._change.wait(), min(left, self.options.health_every_s))

    def _none_left(self, purpose: str = "") -> RunError:
        states = "; ".join(member.state() for member in self._members)
        return RunError(
            f"rollout_engine: no server is left{purpose}: {states}; the run can go on from its last checkpoint: --resume"
        )

    async def pause(self, mode: PauseMode = "abort") -> None:
        await self._everyone(lambda replica: replica.pause(mode))

    async def resume(self) -> None:
        await self._everyone(lambda replica: replica.resume())

    async def abort(self, request_id: str) -> None:
        name = self._names.get(request_id, request_id)
        await self._everyone(lambda replica: replica.abort(name))

    @property
    def _updating(self) -> list[Member]:
        return [member for member in self._members if member.updating]

    async def begin_update(self) -> None:
        await self._stop_reading()
        await self._found(lambda: next((member for member in self._members if member.up), None), " for an update")
        for member in self._members:
            member.updating = member.up
        await self._everyone(lambda replica: replica.begin_update(), among=self._updating)

    async def update(self, tensors: Sequence[tuple[str, Any]]) -> None:
        """While servers read one bucket, the next is written."""
        await self._carry(tensors, lambda replica, bucket: replica.update(bucket))

    async def update_delta(self, changes: Sequence[tuple[str, Any]]) -> None:
        await self._carry(changes, lambda replica, bucket: replica.update_delta(bucket))

    async def _carry(self, tensors: Sequence[tuple[str, Any]], deliver: Callable[[Replica, Bucket], Awaitable[None]]) -> None:
        self._turn = 1 - self._turn
        bucket = Bucket(tensors, self._segments[self._turn])
        if any(member.replica.reads_memory for member in self._updating):
            await bucket.note()
        await self._settle()  # in order: a server gets one bucket at a time
        reading = self._everyone(lambda replica: deliver(replica, bucket), among=self._updating)
        self._reading = asyncio.create_task(reading)
        if not all(member.replica.reads_memory for member in self._updating):
            await self._settle()  # the tensors are the caller's again afterwards

    async def _settle(self) -> None:
        task, self._reading = self._reading, None
        if task is not None:
            await task

    async def _stop_reading(self) -> None:
        """What an update that failed has left."""
        task, self._reading = self._reading, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def update_from_disk(self, path: str) -> None:
        await self._everyone(lambda replica: replica.update_from_disk(path), among=self._updating)

    def members(self) -> Mapping[str, int]:
        """Of the update that has begun."""
        return {member.identity: member.replica.workers for member in self._updating}

    async def join_group(self, place: GroupPlace) -> None:
        ranks: dict[int, int] = {}
        rank = 1
        for member in self._updating:
            ranks[id(member.replica)] = rank
            rank += member.replica.workers
        await self._everyone(
            lambda replica: replica.join_group(attrs.evolve(place, rank=ranks[id(replica)])), among=self._updating
        )

    async def update_from_group(self, specs: Sequence[TensorSpec]) -> None:
        await self._everyone(lambda replica: replica.update_from_group(specs), among=self._updating)

    async def end_update(self, version: int) -> None:
        await self._settle()
        await self._everyone(lambda replica: replica.end_update(version), among=self._updating)
        self.version = version
        for member in self._members:
            member.fresh = member.updating
            member.torn = member.torn and not member.updating
            member.updating = False
        self._change.set()

    async def fingerprint(self) -> Mapping[str, float]:
        """Raises `RunError` when two servers have got different weights."""
        found: dict[str, Mapping[str, float]] = {}

        async def ask(replica: Replica) -> None:
            found[replica.name] = await replica.fingerprint()

        await self._everyone(ask, among=[member for member in self._members if member.usable])
        first, *others = [member.replica.name for member in self._members if member.replica.name in found]
        for name in others:
            difference = same(found[first], found[name])
            if difference is not None:
                message = f"rollout_engine: {first} (first) and {name} (second) have got different weights: {difference}"
                raise RunError(message)
        return found[first]

    async def sleep(self) -> None:
        """With the option `sleep`: give memory to the trainer."""
        if self.options.sleep:
            self._asleep = True
            await self._everyone(lambda replica: replica.sleep())

    async def wake(self) -> None:
        """After `sleep`; servers that are awake stay so."""
        if self.options.sleep:
            self._asleep = False
            await self._everyone(lambda replica: replica.wake())

    async def close(self) -> None:
        """Also where `start` failed half-way."""
        watches, self._watches = self._watches, []
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)
        await self._stop_reading()
        await asyncio.gather(*(member.replica.close() for member in self._members), return_exceptions=True)
        for segment in self._segments:
            segment.close()

    def stats(self) -> Mapping[str, float]:
        self._count("rollout/busy_s", 0.0)
        counters, self._counters = self._counters, {}
        up = sum(member.usable for member in self._members)
        return {"rollout/tokens": 0.0, "rollout/retries": 0.0, **counters, "rollout/servers": float(up)}

    async def _everyone(self, act: Callable[[Replica], Awaitable[None]], *, among: Sequence[Member] | None = None) -> None:
        """On all servers that are up, at once. One that is lost on the way is left out; when none is left, that is an error."""
        chosen = [member for member in (self._members if among is None else among) if member.up]

        async def one(member: Member) -> None:
            try:
                await act(member.replica)
            except ServerLostError as error:
                member.fall(str(error))

        results = await asyncio.gather(*(one(member) for member in chosen), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        if not any(member.up for member in chosen):
            raise self._none_left()

    async def _look_after(self, member: Member) -> None:
        """A lost server that answers again comes back; one that answers no more is lost."""
        while True:
            await asyncio.sleep(self.options.health_every_s)
            await self._look_at(member)

    async def _look_at(self, member: Member) -> None:
        try:
            if not member.up:
                if self._asleep:
                    return  # the memory that it would start with is the trainer's
                await member.replica.recover()
            await member.replica.health()
            if not member.up:
                if self.options.sleep:
                    await member.replica.wake()  # it may have been asleep when it was lost
                serves = await member.replica.version()
                member.rise(fresh=serves == self.version)
                self._change.set()
            member.misses = 0
        except ServerLostError as error:
            self._miss(member, str(error))
        except Exception as error:  # noqa: BLE001 - a plugin's mistake must not end the watch; the message of a lost server has it
            why = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            self._miss(member, why)
            member.trouble = why  # also of one that was lost already: it cannot be started again

    def _miss(self, member: Member, why: str) -> None:
        member.misses += 1
        if member.misses >= _MISSES:
            member.fall(why)

    def _begin_work(self) -> None:
        if self._in_flight == 0:
            self._busy_since = time.monotonic()
        self._in_flight += 1

    def _end_work(self) -> None:
        self._in_flight -= 1
        self._count("rollout/busy_s", 0.0)

    def _count(self, name: str, value: float) -> None:
        """`rollout/busy_s` counts the time with anything in flight."""
        if name == "rollout/busy_s" and self._busy_since is not None:
            now = time.monotonic()
            value, self._busy_since = now - self._busy_since, now if self._in_flight else None
        self._counters[name] = self._counters.get(name, 0.0) + value


async def _unless_lost(member: Member, work: Awaitable[Result]) -> Result:
    """What the server answers, or `ServerLostError` as soon as the pool knows it to be lost."""
    task = asyncio.ensure_future(work)
    lost = asyncio.ensure_future(member.lost.wait())
    try:
        await asyncio.wait({task, lost}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        message = f"{member.replica.name} is lost: {member.trouble}"
        raise ServerLostError(message)
    finally:
        for one in (task, lost):
            one.cancel()
        await asyncio.gather(task, lost, return_exceptions=True)
