"""Checks of rewards: `core_rl.roles.scoring.Reward`."""

from __future__ import annotations

import asyncio
import copy
import inspect
import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from core_rl.daemon_threads import DaemonThreads, OverdueError
from core_rl.errors import UserError
from core_rl.roles.scoring import RewardOutcome
from core_rl.testing.kit.check import UnmetError, checks, expect, not_judged, shown
from core_rl.testing.samples import sample

if TYPE_CHECKING:
    from core_rl.data.sample import Sample
    from core_rl.testing.kit.subject import Subject

PLAIN = (sample("5", answer="5"), sample("The answer is 6.", answer="5"), sample("5 ", answer=5))
"""Where a test class gives no samples of its own."""
LONG = 200_000
LIMIT_S = 10.0
THREADS = 8
WAIT_S = 60.0
"""For each call."""


def scores(subject: Subject) -> None:
    """A real sample gets a finite number, or a `RewardOutcome` with one."""
    reward = subject.build()
    refused: list[str] = []
    for one in _samples(subject):
        try:
            value = _score(reward, one)
        except UserError as error:
            if subject.given.get("samples"):
                raise
            refused.append(str(error))
            continue
        _expect_number(value, one)
    if len(refused) == len(_samples(subject)):
        not_judged(f"plain sums are no samples of it ({refused[0]}): give `samples` in a test class")


def several_threads(subject: Subject) -> None:
    """Called from several threads at once, it gives what it gives one after the other."""
    reward, samples = subject.build(), list(_samples(subject)) * 8
    expected = [_outcome(reward, one) for one in samples]
    try:
        found = asyncio.run(_in_threads(reward, samples))
    except OverdueError:
        message = f"called from {THREADS} threads, it did not end within {WAIT_S:g} s"
        raise UnmetError(message) from None
    wrong = [(mine, theirs) for mine, theirs in zip(found, expected, strict=True) if mine != theirs]
    expect(not wrong, f"{len(wrong)} of {len(samples)} samples have another reward in threads: {shown(wrong[:1])}")


async def _in_threads(reward: Any, samples: Sequence[Sample]) -> list[Any]:
    """Raises `OverdueError` when one has hung. By the threads of a run, which hold up nobody's end."""
    threads, free = DaemonThreads("reward"), asyncio.Semaphore(THREADS)

    async def one(scored: Sample) -> Any:
        async with free:
            return await threads.call(lambda: _outcome(reward, scored), WAIT_S)

    return await asyncio.gather(*(one(each) for each in samples))


def same_again(subject: Subject) -> None:
    """The same sample gets the same reward, in any order, from the same object and from another one."""
    one, samples = subject.build(), list(_samples(subject))
    first = [_outcome(one, item) for item in samples]
    again = [_outcome(one, item) for item in reversed(samples)][::-1]
    expect(first == again, f"the rewards are {shown(first)}, and in another order {shown(again)}")
    anew = subject.build()
    other = [_outcome(anew, item) for item in samples]
    expect(first == other, f"the rewards are {shown(first)}, and from an object built anew {shown(other)}")


def odd_input(subject: Subject) -> None:
    """Nothing that a policy may write, and no answer that is missing, does more than raise an ordinary exception."""
    reward = subject.build()
    base = _samples(subject)[0]
    for what, one in _odd(base).items():
        try:
            value = _score(reward, one)
        except Exception:  # noqa: BLE001, S112 - the contract lets it raise; the scorer keeps the error with the sample
            continue
        except BaseException as error:
            message = f"{what}: it raised {type(error).__name__}, which ends the run; expected an Exception or a number"
            raise UnmetError(message) from error
        number = value.value if isinstance(value, RewardOutcome) else value
        expect(_is_number(number), f"{what}: it gave {shown(number)}, expected a number (or an exception)")


def long_completion(subject: Subject) -> None:
    """A completion of 200,000 characters takes less than ten seconds."""
    reward, base = subject.build(), _samples(subject)[0]
    for filling in ("a", "((", "\\boxed{", "<think>"):
        text = (filling * (LONG // len(filling)))[:LONG]
        start = time.perf_counter()
        _outcome(reward, attrs.evolve(base, completion_text=text))
        took = time.perf_counter() - start
        expect(took < LIMIT_S, f"{LONG} characters of {filling!r} took {took:.1f} s, expected less than {LIMIT_S:g}")


def leaves_the_sample_alone(subject: Subject) -> None:
    """Nothing is written into the sample."""
    reward = subject.build()
    for one in _samples(subject):
        before = copy.deepcopy(one)
        _outcome(reward, one)
        changed = [field.name for field in attrs.fields(type(one)) if getattr(one, field.name) != getattr(before, field.name)]
        expect(not changed, f"it writes into {', '.join(changed)} of the sample; facts go into RewardOutcome.info")


def use(subject: Subject) -> None:
    """Once."""
    _outcome(subject.build(), _samples(subject)[0])


def _samples(subject: Subject) -> Sequence[Sample]:
    given: Sequence[Sample] = subject.given.get("samples") or PLAIN
    return copy.deepcopy(given)  # what one check does to them is not told to the next


def _score(reward: Any, one: Sample) -> Any:
    value = reward.score(one)
    return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


async def _awaited(value: Any) -> Any:
    return await value


def _outcome(reward: Any, one: Sample) -> Any:
    """The number, or the error in words."""
    try:
        value = _score(reward, one)
    except Exception as error:  # noqa: BLE001 - as the scorer does
        return f"{type(error).__name__}: {error}"
    return float(value.value if isinstance(value, RewardOutcome) else value)


def _expect_number(value: Any, one: Sample) -> None:
    number = value.value if isinstance(value, RewardOutcome) else value
    sound = _is_number(number) and math.isfinite(float(number))
    expect(
        sound, f"the completion {shown(one.completion_text)} got {shown(value)}, expected a finite number or a RewardOutcome"
    )


def _is_number(value: Any) -> bool:
    if isinstance(value, str | bytes) or not hasattr(value, "__float__"):
        return False
    try:
        float(value)
    except Exception:  # noqa: BLE001 - a tensor of several elements, or any other object's own
        return False
    return True


def _odd(base: Sample) -> dict[str, Sample]:
    texts = {
        "an empty completion": "",
        "white space": " \n\t ",
        "half a surrogate pair": "\ud83d 5",
        "a NUL character": "5\x00",
        "right-to-left text and emoji": "\u202e\u0665 \U0001f9ee \u4e94",
        "nested brackets": "[" * 2000,
        "a very long number": "9" * 10_000,
    }
    found = {what: attrs.evolve(base, completion_text=text) for what, text in texts.items()}
    for what, answer in (("no answer", None), ("an answer that is a list", ["5"]), ("an empty answer", "")):
        found[what] = attrs.evolve(base, prompt=attrs.evolve(base.prompt, answer=answer))
    found["no metadata"] = attrs.evolve(base, prompt=attrs.evolve(base.prompt, metadata={}))
    found["no turn"] = attrs.evolve(base, turns=())
    return found


CHECKS = checks(scores, several_threads, same_again, odd_input, long_completion, leaves_the_sample_alone)
