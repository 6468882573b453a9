"""Rewards that work, and every way in which one does not."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from fractions import Fraction

import pytest
import torch

import core_rl.scoring
from core_rl.data.sample import Group, Prompt, RewardPart, Sample
from core_rl.errors import RewardError
from core_rl.roles.scoring import RewardOutcome
from core_rl.scoring import Scorer, reward_metrics


class Plain:
    def __init__(self, function):
        self.score = function


def sample(text="x"):
    return Sample(prompt=Prompt(id="p", text="q"), turns=[], finish_reason="stop", completion_text=text)


def scored(*rewards, samples=1, timeout_s=5.0, on_failure="drop", **options):
    scorer = Scorer(rewards, timeout_s=timeout_s, on_failure=on_failure, **options)
    made = [sample(str(index)) for index in range(samples)]

    async def work():
        await asyncio.gather(*(scorer.score(one) for one in made))

    asyncio.run(work())
    return made


async def slow_async(_):
    await asyncio.sleep(60)


async def network(_):
    await raises(TimeoutError("read timed out"))(_)


def hands_out_a_coroutine(one):
    return slow_async(one)


def hang(_):
    time.sleep(60)


def raises(error):
    def score(_):
        raise error

    return score


def test_weighted_sum_of_plain_async_and_detailed_rewards():
    """Values, weights and facts arrive in the sample; the label of a repeated name is its own."""

    async def later(one):
        await asyncio.sleep(0)
        return len(one.completion_text)

    def lazy(one):
        return later(one)

    [one] = scored(
        ("math", 1.0, Plain(lambda _: True)),
        ("math", 0.5, Plain(later)),
        ("core-rl-x/format", 2.0, Plain(lambda _: RewardOutcome(value=0.25, info={"why": "half"}))),
        ("mine.module:Judge", -1.0, Plain(lambda _: Fraction(1, 4))),
        ("lazy", 1.0, Plain(lazy)),
    )

    assert one.reward == pytest.approx(1.0 + 0.5 + 0.5 - 0.25 + 1.0)
    assert list(one.reward_parts) == ["math", "math_2", "format", "Judge", "lazy"]
    assert one.reward_parts["format"] == RewardPart(value=0.25, weight=2.0, info={"why": "half"})


@pytest.mark.parametrize("value", [1, True, 0.5, torch.tensor(0.5), torch.tensor([0.5])])
def test_anything_that_is_one_number_is_a_value(value):
    """Integers, truth values, floats and tensors of one element."""
    [one] = scored(("r", 1.0, Plain(lambda _: value)))

    assert one.reward == float(value)


@pytest.mark.parametrize(
    ("score", "error"),
    [
        (raises(RuntimeError("judge is down")), "RuntimeError: judge is down"),
        (raises(RewardError("of its own")), "RewardError: of its own"),
        (raises(SystemExit(3)), "RuntimeError: SystemExit: 3"),
        (raises(StopIteration()), "RuntimeError: StopIteration: "),
        (raises(TimeoutError("socket")), "TimeoutError: socket"),
        (network, "TimeoutError: read timed out"),
        (hang, "no answer within 0.05 s"),
        (slow_async, "no answer within 0.05 s"),
        (hands_out_a_coroutine, "no answer within 0.05 s"),
        (lambda _: float("nan"), "returned nan, expected a finite number"),
        (lambda _: float("inf"), "returned inf, expected a finite number"),
        (lambda _: "good", "returned 'good' (str), expected a number"),
        (lambda _: None, "returned None (NoneType), expected a number"),
        (lambda _: torch.zeros(2), "returned tensor([0., 0.]) (Tensor), expected a number"),
        (lambda _: RewardOutcome(value=None), "returned None (NoneType), expected a number"),
    ],
)
def test_every_failure_is_a_state_with_its_reason(score, error):
    """The sample has no reward, the part says why, and the other part keeps its value."""
    [one] = scored(("bad", 1.0, Plain(score)), ("good", 1.0, Plain(lambda _: 1.0)), timeout_s=0.05)

    assert one.reward is None
    assert one.reward_parts["bad"].value is None
    assert one.reward_parts["bad"].error == error
    assert one.reward_parts["good"].value == 1.0


def test_failure_policies():
    """zero counts the failed part as 0, stop ends the run with the reason."""
    bad, good = ("bad", 2.0, Plain(raises(ValueError("no")))), ("good", 0.5, Plain(lambda _: 1.0))

    assert scored(bad, good, on_failure="zero")[0].reward == 0.5
    with pytest.raises(RewardError, match="bad failed: ValueError: no"):
        scored(bad, good, on_failure="stop")


def test_a_hung_call_holds_up_nobody():
    """One sample of twelve hangs, with two threads at work: the others are scored at once."""
    begin = time.monotonic()
    made = scored(("r", 1.0, Plain(lambda one: hang(one) if one.completion_text == "3" else 1.0)), samples=12, timeout_s=0.2,
                  max_concurrency=2)  # fmt: skip

    assert [one.reward for one in made] == [None if index == 3 else 1.0 for index in range(12)]
    assert time.monotonic() - begin < 5


def test_the_clock_starts_when_the_call_does():
    """Ten calls of 0.1 s through one thread take a second; none of them is late by a limit of 0.5 s."""
    made = scored(("r", 1.0, Plain(lambda _: time.sleep(0.1) or 1.0)), samples=10, timeout_s=0.5, max_concurrency=1)

    assert [one.reward for one in made] == [1.0] * 10


def test_concurrency_is_bounded_and_used():
    """Calls run beside each other, and never more than allowed."""
    running, most, lock = [0], [0], threading.Lock()

    def score(_):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.02)
        with lock:
            running[0] -= 1
        return 1.0

    scored(("r", 1.0, Plain(score)), samples=12, max_concurrency=3)

    assert most[0] == 3


def test_too_many_hung_calls_end_the_run(monkeypatch):
    """Each holds a thread for good, so there is a bound."""
    monkeypatch.setattr(core_rl.scoring, "MAX_ABANDONED", 3)

    with pytest.raises(RewardError, match="4 calls never came back, the last of judge"):
        scored(("judge", 1.0, Plain(hang)), samples=4, timeout_s=0.02)


def test_each_error_is_said_once(capsys, monkeypatch):
    """A thousand equal failures are one line, and different ones stop at a bound."""
    monkeypatch.setattr(core_rl.scoring, "MAX_WARNINGS", 2)
    scored(("same", 1.0, Plain(raises(ValueError("no")))), samples=5)
    first = capsys.readouterr().err
    scored(("many", 1.0, Plain(lambda one: raises(ValueError(one.completion_text))(one))), samples=9)
    second = capsys.readouterr().err

    assert first == "core-rl: warning: reward same failed: ValueError: no\n"
    assert len(second.splitlines()) == 3
    assert second.endswith("further errors of rewards are not shown\n")


def test_a_scorer_serves_several_event_loops():
    """`train` and `eval` each have a loop of their own."""
    scorer = Scorer([("r", 1.0, Plain(lambda _: 1.0))], timeout_s=1, on_failure="drop", max_concurrency=1)

    async def work():
        made = [sample() for _ in range(4)]
        await asyncio.gather(*(scorer.score(one) for one in made))
        return [one.reward for one in made]

    assert asyncio.run(work()) == asyncio.run(work()) == [1.0] * 4


def test_a_hung_reward_does_not_keep_the_process():
    """Python ends although a thread still sleeps."""
    code = (
        "import asyncio, time; from core_rl.scoring import Scorer; from core_rl.data.sample import *\n"
        "class R:\n    def score(self, s): time.sleep(60)\n"
        "s = Sample(prompt=Prompt(id='p', text='q'), turns=[], finish_reason='stop', completion_text='')\n"
        "asyncio.run(Scorer([('r', 1, R())], timeout_s=0.05, on_failure='drop').score(s)); print(s.reward)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True)

    assert done.stdout == "None\n"


def group(*rewards):
    samples = [sample() for _ in rewards]
    for one, reward in zip(samples, rewards, strict=True):
        one.reward = reward
        one.reward_parts = {"r": RewardPart(value=reward, weight=1.0)}
    return Group(prompt=samples[0].prompt, samples=samples)


def test_metrics_by_hand():
    """Two groups can be compared, one of them without spread; one sample failed."""
    metrics = reward_metrics([group(1.0, 0.0), group(1.0, 1.0, None), group(2.0)])

    assert metrics == pytest.approx(
        {
            "reward/mean": 1.0,
            "reward/std": 0.4**0.5,
            "reward/failed": 1.0,
            "reward/zero_std_frac": 0.5,
            "reward/r/mean": 1.0,
            "reward/r/failed_frac": 1 / 6,
            "time/reward": 0.0,
        }
    )


def test_metrics_of_nothing_and_of_failures():
    """No samples, no metrics; only failures, no means."""
    assert reward_metrics([]) == {}
    assert reward_metrics([group(None, None)]) == {"reward/failed": 2.0, "reward/r/failed_frac": 1.0, "time/reward": 0.0}


def test_reward_time_is_the_time_in_which_any_was_at_work():
    """Spans that overlap count once."""
    one = group(1.0, 1.0, 1.0)
    for each, span in zip(one.samples, [(0.0, 2.0), (1.0, 3.0), (10.0, 10.5)], strict=True):
        each.metadata["reward_span"] = span

    assert reward_metrics([one])["time/reward"] == pytest.approx(3.5)
