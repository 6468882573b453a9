"""Requests that are paused, resumed and taken back."""

from __future__ import annotations

import asyncio

import attrs

from core_rl.roles.rollout import Completion, PauseMode
from core_rl.testing.rollout_engine.bench import FREE, RolloutBench, expect

LONG = attrs.evolve(FREE, max_new_tokens=200)
_DELAYS_S = (0.02, 0.05, 0.1, 0.2, 0.4, 0.01, 0.005, 0.002)
"""How long a request runs before something happens to it: one of them is in its middle, on any machine."""


async def abort_all(bench: RolloutBench) -> None:
    """`pause` with abort gives back what there is; after `resume` the engine answers as before."""
    for delay in _DELAYS_S:
        task = asyncio.ensure_future(bench.sample(LONG, n=2, seed=31))
        await asyncio.sleep(delay)
        await bench.engine.pause("abort")
        found = await task
        await bench.engine.resume()
        if all(c.finish_reason == "abort" and 0 < len(c.tokens) < 200 for c in found):
            bench.compare("abort_all", found, LONG)
            (after,) = await bench.sample()
            expect(len(after.tokens) == 12, "after resume a request was not answered whole")
            return
    message = "no request was met in its middle: none came back with finish_reason abort and some of its tokens"
    raise AssertionError(message)


async def keep(bench: RolloutBench) -> None:
    """`pause` with keep stops what is in flight and `resume` goes on with it: the tokens are those of an undisturbed request."""
    await _interrupted(bench, "keep")


async def retract(bench: RolloutBench) -> None:
    """`pause` with retract computes what is in flight anew: the tokens are those of an undisturbed request."""
    await _interrupted(bench, "retract")


async def _interrupted(bench: RolloutBench, mode: PauseMode) -> None:
    undisturbed = await bench.sample(LONG, n=2, seed=41)
    met = False
    for delay in _DELAYS_S[:4]:
        task = asyncio.ensure_future(bench.sample(LONG, n=2, seed=41))
        await asyncio.sleep(delay)
        await bench.engine.pause(mode)
        waited = not task.done()
        await asyncio.sleep(0.3)
        still = not task.done()
        await bench.engine.resume()
        found: list[Completion] = await task
        expect([c.finish_reason for c in found] == ["length"] * 2, f"finish reasons {[c.finish_reason for c in found]}")
        bench.compare(mode, found, LONG)
        expect(
            [c.tokens for c in found] == [c.tokens for c in undisturbed], "the tokens are not those of an undisturbed request"
        )
        met = met or (waited and still)
    expect(met, "no request was held by the pause")


async def abort_one(bench: RolloutBench) -> None:
    """`abort` takes back one request and leaves the others."""
    for delay in _DELAYS_S:
        one, other = bench.request(LONG, seed=51), bench.request(LONG, seed=52)
        tasks = [asyncio.ensure_future(bench.engine.generate(request)) for request in (one, other)]
        await asyncio.sleep(delay)
        await bench.engine.abort(one.id)
        (taken,), (left,) = await asyncio.gather(*tasks)
        expect(left.finish_reason == "length" and len(left.tokens) == 200, "another request was taken back")
        if taken.finish_reason == "abort":
            expect(len(taken.tokens) < 200, "it was taken back with all of its tokens")
            return
    message = "no request came back with finish_reason abort"
    raise AssertionError(message)


async def cancelled_request(bench: RolloutBench) -> None:
    """Someone who no longer waits does not hold up others."""
    task = asyncio.ensure_future(bench.sample(LONG, n=4))
    await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    (found,) = await bench.sample()
    expect(len(found.tokens) == 12, "the next request was not answered whole")
