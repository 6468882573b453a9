"""The pool of servers: who takes a request, what happens when one is lost, and how weights reach them all."""

from __future__ import annotations

import asyncio
import math
import os
import threading
from types import SimpleNamespace

import pytest
import torch

from core_rl.builtin.config import SharedMemoryConfig
from core_rl.builtin.shared_memory import SharedMemory
from core_rl.data.sample import VersionSpan
from core_rl.errors import PromptTooLongError, RunError
from core_rl.fingerprint import fingerprint
from core_rl.roles.rollout import Completion, GenerateRequest, SamplingParams, ScoreRequest, Scores
from core_rl.serving import members
from core_rl.serving.config import PoolConfig
from core_rl.serving.members import Member, Router
from core_rl.serving.pool import PoolEngine
from core_rl.serving.replica import ServerLostError
from core_rl.weights import segment
from core_rl.weights.group import GroupPlace
from core_rl.weights.segment import Reader


def request(name="r", prompt=(1, 2, 3), n=1):
    return GenerateRequest(id=str(name), prompt_ids=list(prompt), params=SamplingParams(), n=n)


def completion(tokens, version=0, **changes):
    whole = {
        "tokens": tokens,
        "logprobs": [-0.5] * len(tokens),
        "finish_reason": "stop",
        "versions": [VersionSpan(start=0, end=len(tokens), version=version)] if tokens else [],
    }
    return Completion(**{**whole, **changes})


class Fake:
    """A server. What it is asked is in `log`; `faults` are raised, `holds` are waited for, by the method's name."""

    def __init__(self, name, *, workers=1, reads_memory=False):
        self.name, self.workers, self.reads_memory = name, workers, reads_memory
        self.log, self.faults, self.holds = [], {}, {}
        self.asked, self.cancelled, self.ranks = [], [], []
        self.asked_now, self.recovers = asyncio.Event(), asyncio.Event()
        self.serves, self.weights, self.reader = None, {}, Reader()
        self.answer = lambda request: [completion([len(request.prompt_ids), number]) for number in range(request.n)]

    async def act(self, what):
        self.log.append(what)
        if what in self.faults:
            raise self.faults[what]
        if what in self.holds:
            await self.holds[what].wait()

    async def generate(self, request):
        self.asked.append(request.id)
        self.asked_now.set()
        try:
            await self.act("generate")
        except asyncio.CancelledError:
            self.cancelled.append(request.id)
            if "cancel" in self.holds:
                await self.holds["cancel"].wait()
            raise
        return self.answer(request)

    async def score(self, request):
        await self.act("score")
        return Scores(logprobs=[0.0] * len(request.tokens))

    async def recover(self):
        self.recovers.set()
        await self.act("recover")

    async def version(self):
        return self.serves

    async def abort(self, request_id):
        self.log.append(("abort", request_id))

    async def update(self, bucket):
        note = await bucket.note() if self.reads_memory else None
        await self.act("update")
        tensors = bucket.tensors if note is None else self.reader.read(note)
        self.weights |= {name: tensor.clone() for name, tensor in tensors}
        self.log.append("updated")

    async def join_group(self, place):
        self.ranks.append(place.rank)

    async def end_update(self, version):
        await self.act("end_update")
        self.serves = version

    async def fingerprint(self):
        await self.act("fingerprint")
        return fingerprint(self.weights.items())

    def __getattr__(self, what):
        if what not in {
            *("start", "health", "pause", "resume", "begin_update", "update_delta"),
            *("update_from_disk", "update_from_group", "sleep", "wake", "close"),
        }:
            raise AttributeError(what)
        return lambda *_: self.act(what)


LOST = ServerLostError("connection reset")


def pool_of(fakes, **options):
    """Nothing is looked at by itself."""
    return PoolEngine(fakes, PoolConfig(**{"health_every_s": 1000.0, "wait_for_server_s": 0.0, **options}))


def with_pool(fakes, work, **options):
    """The result of `work(pool)` on a pool that was started, closed afterwards."""

    async def main():
        pool = pool_of(fakes, **options)
        try:
            await pool.start()
            return await work(pool)
        finally:
            await pool.close()

    return asyncio.run(main())


async def look(pool, *names):
    """What the pool does from time to time."""
    for member in pool._members:
        if member.replica.name in names:
            await pool._look_at(member)


async def turns(count=20):
    """Every task that can go on does."""
    for _ in range(count):
        await asyncio.sleep(0)


def names(fakes):
    return [fake.name for fake in fakes]


def lose(pool, name, why="gone"):
    next(member for member in pool._members if member.replica.name == name).fall(why)


def bucket(value, *, size=4, name="w"):
    return [(name, torch.full((size,), float(value)))]


# Routing


def test_the_least_loaded_server_takes_a_request():
    """Counted in samples that are in flight; afterwards nothing is."""
    fakes = [Fake("a"), Fake("b"), Fake("c")]

    async def work(pool):
        release = asyncio.Event()
        for fake in fakes:
            fake.holds["generate"] = release
        tasks = []
        for number, n in enumerate((4, 1, 1, 2, 1, 1)):
            tasks.append(asyncio.create_task(pool.generate(request(number, prompt=[number], n=n))))
            await turns()
        running = [member.running for member in pool._members]
        release.set()
        answers = await asyncio.gather(*tasks)
        return running, [len(answer) for answer in answers], [member.running for member in pool._members]

    assert with_pool(fakes, work) == ([4, 3, 3], [4, 1, 1, 2, 1, 1], [0, 0, 0])
    assert [fake.asked for fake in fakes] == [["0"], ["1", "3"], ["2", "4", "5"]]


def test_a_prompt_goes_where_it_was_within_bounds():
    """64 tokens tell; the server that has it is preferred while it has at most 16 samples more than the least loaded one."""
    fakes = [Fake("a"), Fake("b"), Fake("c")]

    async def work(pool):
        release = asyncio.Event()
        for fake in fakes:
            fake.holds["generate"] = release
        tasks = []
        for number in range(40):
            tasks.append(asyncio.create_task(pool.generate(request(number, prompt=[*range(64), number]))))
            await turns(3)
        release.set()
        await asyncio.gather(*tasks)

    with_pool(fakes, work)

    assert [len(fake.asked) for fake in fakes] == [17, 17, 6]


def test_prompts_are_remembered_within_bounds(monkeypatch):
    """The oldest is forgotten; a lost server's prompts find another home and stay there."""
    monkeypatch.setattr(members, "_REMEMBERED", 2)
    router = Router()
    first, second = Member(replica=Fake("a"), up=True), Member(replica=Fake("b"), up=True)
    for prompt in ([1], [2], [3]):
        router.choose([first, second], prompt)
    remembered = len(router._homes)
    first.fall("gone")
    moved = router.choose([first, second], [3])
    first.rise(fresh=True)

    assert remembered == 2
    assert moved is router.choose([first, second], [3]) is second
    assert router.choose([first, second], [1]) is first
    assert router.choose([], [1]) is None


def test_scores_are_asked_for_like_samples():
    """And again at another server."""
    fakes = [Fake("a"), Fake("b")]
    fakes[0].faults["score"] = LOST

    scores = with_pool(fakes, lambda pool: pool.score(ScoreRequest(id="s", tokens=[1, 2, 3])))

    assert scores.logprobs == [0.0] * 3
    assert [fake.log.count("score") for fake in fakes] == [1, 1]


# Lost servers


def test_requests_of_a_lost_server_go_to_another_at_once():
    """One of them finds out; the others do not wait for an answer that never comes. Each is answered once, under another name."""
    fakes = [Fake("a"), Fake("b")]

    async def work(pool):
        fakes[0].holds["generate"] = asyncio.Event()
        tasks = [asyncio.create_task(pool.generate(request(number, prompt=[7]))) for number in range(5)]
        await turns()
        before = list(fakes[0].asked)
        del fakes[0].holds["generate"]
        fakes[0].faults["generate"] = LOST
        last = asyncio.create_task(pool.generate(request("last", prompt=[7])))
        answers = await asyncio.gather(*tasks, last)
        return before, len(answers), pool.stats()

    before, count, stats = with_pool(fakes, work)

    assert (before, count) == (["0", "1", "2", "3", "4"], 6)
    assert sorted(fakes[0].cancelled) == before
    assert sorted(fakes[1].asked) == ["0#1", "1#1", "2#1", "3#1", "4#1", "last#1"]
    assert (stats["rollout/retries"], stats["rollout/servers"]) == (6.0, 1.0)


GOOD = completion([5, 6])


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ([GOOD], "1 completions for 2"),
        ([GOOD] * 3, "3 completions for 2"),
        ([GOOD, completion([5, 6], logprobs=[-0.5])], "1 log-probabilities for 2 tokens"),
        ([GOOD, completion([5, 6], logprobs=[-0.5, math.nan])], "not finite"),
        ([GOOD, completion([5, 6], logprobs=[-0.5, -math.inf])], "not finite"),
        ([GOOD, completion([5, 6], logprobs=[-0.5, 0.5])], "above 0"),
        ([GOOD, completion([5, 6], versions=[])], "spans of weight versions do not cover its 2 tokens"),
        ([GOOD, completion([5, 6], versions=[VersionSpan(start=0, end=1, version=1)])], "do not cover"),
        ([completion([5, 6], versions=[VersionSpan(start=0, end=1, version=1)] * 2), GOOD], "do not cover"),
    ],
)
def test_an_answer_that_cannot_be_trained_on_is_asked_for_again(bad, words):
    """Elsewhere, and the message of the server says why."""
    fakes = [Fake("a"), Fake("b")]
    fakes[0].answer = lambda _: bad

    async def work(pool):
        return await pool.generate(request(n=2)), pool._members[0].state()

    answer, state = with_pool(fakes, work)

    assert [list(one.tokens) for one in answer] == [[3, 0], [3, 1]]
    assert words in state


def test_an_aborted_sample_may_be_empty():
    """And two spans may follow each other."""
    fakes = [Fake("a")]
    spans = [VersionSpan(start=0, end=1, version=1), VersionSpan(start=1, end=2, version=2)]
    whole = [completion([], finish_reason="abort"), completion([1, 2], logprobs=[0.0, 1e-4], versions=spans)]
    fakes[0].answer = lambda _: whole

    assert with_pool(fakes, lambda pool: pool.generate(request(n=2))) == whole


def test_retries_are_bounded():
    """A server that comes back at once and answers NaN each time: the last trouble is in the message."""
    fakes = [Fake("a")]
    fakes[0].answer = lambda _: [completion([1], logprobs=[math.nan])]

    with pytest.raises(RunError, match=r"request r failed 3 times, last with: request r#2: a log-probability is not finite"):
        with_pool(fakes, lambda pool: pool.generate(request()), retries=2, health_every_s=0.001, wait_for_server_s=60.0)
    assert fakes[0].asked == ["r", "r#1", "r#2"]


def test_what_every_server_would_refuse_is_not_tried_again():
    """And the server is none the worse."""
    fakes = [Fake("a"), Fake("b")]
    fakes[0].faults["generate"] = PromptTooLongError("too long")

    async def work(pool):
        with pytest.raises(PromptTooLongError):
            await pool.generate(request())
        return pool.stats()["rollout/servers"]

    assert with_pool(fakes, work) == 2.0
    assert fakes[1].asked == []


def test_without_a_server_the_message_names_each():
    """And why it was lost."""
    fakes = [Fake("http://a:1"), Fake("http://b:2")]
    fakes[0].faults["generate"] = ServerLostError("out of memory")
    fakes[1].faults["generate"] = ServerLostError("no answer in 5 s")

    with pytest.raises(
        RunError,
        match=r"no server is left for request r: http://a:1: lost: out of memory; http://b:2: lost: no answer in 5 s; .*--resume",
    ):
        with_pool(fakes, lambda pool: pool.generate(request()))


def test_a_request_waits_for_a_server():
    """Of 10 that find none, all are answered when one is back."""
    fakes = [Fake("a")]

    async def work(pool):
        lose(pool, "a")
        tasks = [asyncio.create_task(pool.generate(request(number))) for number in range(10)]
        await turns()
        waiting = list(fakes[0].asked)
        await look(pool, "a")
        return waiting, len(await asyncio.gather(*tasks))

    assert with_pool(fakes, work, wait_for_server_s=1000.0) == ([], 10)
    assert fakes[0].log.count("recover") == 1


def test_a_request_that_is_given_up_leaves_nothing():
    """Its server is told, and has nothing to do for it any more."""
    fakes = [Fake("a")]

    async def work(pool):
        fakes[0].holds["generate"] = asyncio.Event()
        task = asyncio.create_task(pool.generate(request()))
        await fakes[0].asked_now.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return pool._members[0].running, pool._names, pool._in_flight

    assert with_pool(fakes, work) == (0, {}, 0)
    assert fakes[0].cancelled == ["r"]


def test_a_request_is_aborted_by_the_name_it_has_now():
    """Tried again, it runs under another one."""
    fakes = [Fake("a"), Fake("b")]
    fakes[0].faults["generate"] = LOST

    async def work(pool):
        fakes[1].holds["generate"] = asyncio.Event()
        task = asyncio.create_task(pool.generate(request()))
        await fakes[1].asked_now.wait()
        await pool.abort("r")
        fakes[1].holds["generate"].set()
        await task
        await pool.abort("r")

    with_pool(fakes, work)

    assert [entry for entry in fakes[1].log if entry[0] == "abort"] == [("abort", "r#1"), ("abort", "r")]


def test_a_server_is_lost_after_three_looks_without_an_answer():
    """What is in flight there goes elsewhere; one good look in between starts the count anew."""
    fakes = [Fake("a"), Fake("b")]

    async def work(pool):
        fakes[0].holds["generate"] = asyncio.Event()
        task = asyncio.create_task(pool.generate(request()))
        await fakes[0].asked_now.wait()
        for fails in (True, True, False, True, True):
            fakes[0].faults = {"health": LOST} if fails else {}
            await look(pool, "a", "b")
        up = pool._members[0].up
        await look(pool, "a")
        await task
        return up, [member.state() for member in pool._members]

    assert with_pool(fakes, work) == (True, ["a: lost: connection reset", "b: up"])
    assert (fakes[0].cancelled, fakes[1].asked) == (["r"], ["r#1"])


@pytest.mark.parametrize(
    ("fault", "words"), [(RunError("it ended with exit code 1"), "it ended with exit code 1"), (KeyError("x"), "KeyError: 'x'")]
)
def test_a_server_that_cannot_be_started_again_stays_lost(fault, words):
    """The watch goes on whatever a plugin raises, and the message has it."""
    fakes = [Fake("a"), Fake("b")]

    async def work(pool):
        lose(pool, "a")
        fakes[0].faults["recover"] = fault
        await look(pool, "a")
        state = pool._members[0].state()
        del fakes[0].faults["recover"]
        await look(pool, "a")
        return state, pool._members[0].up

    assert with_pool(fakes, work) == (f"a: lost: {words}", True)


def test_the_last_word_of_a_lost_server_does_not_lose_it_again():
    """A request that takes its time to give up, while the server has come back already."""
    fakes = [Fake("a"), Fake("b")]

    async def work(pool):
        fakes[0].holds = {"generate": asyncio.Event(), "cancel": asyncio.Event()}
        task = asyncio.create_task(pool.generate(request()))
        await fakes[0].asked_now.wait()
        lose(pool, "a")
        await turns()
        await look(pool, "a")
        fakes[0].holds.pop("cancel").set()
        fakes[0].holds["generate"].set()
        await task
        return pool._members[0].state()

    assert with_pool(fakes, work) == "a: up"
    assert fakes[0].cancelled == ["r"]


def test_servers_are_looked_after_each_by_itself():
    """While one is started again for minutes, another comes back."""
    fakes = [Fake("a"), Fake("b")]

    async def work(pool):
        fakes[0].holds["recover"] = asyncio.Event()
        lose(pool, "a")
        await fakes[0].recovers.wait()
        lose(pool, "b")
        await pool.generate(request())

    with_pool(fakes, work, health_every_s=0.001, wait_for_server_s=1000.0)

    assert fakes[1].asked == ["r"]


# Versions


async def update(pool, version, *buckets):
    await pool.begin_update()
    for one in buckets:
        await pool.update(one)
    await pool.end_update(version)


def test_a_server_that_comes_back_takes_requests_if_it_serves_the_version():
    """One with another version waits for the next update, and says so."""
    fakes = [Fake("a"), Fake("b")]

    async def work(pool):
        await update(pool, 1)
        for fake in fakes:
            lose(pool, fake.name)
        fakes[1].serves = None  # it was started anew
        await look(pool, "a", "b")
        states = [member.state() for member in pool._members]
        await asyncio.gather(*(pool.generate(request(number, prompt=[number])) for number in range(4)))
        first = [len(fake.asked) for fake in fakes]
        await update(pool, 2)
        await asyncio.gather(*(pool.generate(request(number, prompt=[10 + number])) for number in range(4)))
        return states, first, pool._members[1].state()

    states, first, last = with_pool(fakes, work)

    assert states == ["a: up", "b: up, but with weights of another version"]
    assert (first, last) == ([4, 0], "b: up")
    assert len(fakes[1].asked) == 2


def test_requests_wait_for_the_update_that_a_server_needs():
    """They are taken as soon as it is done."""
    fakes = [Fake("a")]

    async def work(pool):
        await update(pool, 1)
        lose(pool, "a")
        fakes[0].serves = None
        await look(pool, "a")
        task = asyncio.create_task(pool.generate(request()))
        await turns()
        before = list(fakes[0].asked)
        await update(pool, 2)
        await task
        return before

    assert with_pool(fakes, work, wait_for_server_s=1000.0) == []


@pytest.mark.parametrize("reads_memory", [False, True])
def test_a_server_that_is_lost_in_an_update_is_left_out(reads_memory):
    """Back before the end, it gets nothing more of it, and takes no request whatever version it says: it has half of each."""
    fakes = [Fake("a", reads_memory=reads_memory), Fake("b", reads_memory=reads_memory)]

    async def work(pool):
        await update(pool, 1, bucket(1))
        await pool.begin_update()
        began = pool.members()
        await pool.update(bucket(2))
        lose(pool, "a")
        await look(pool, "a")
        during = pool.members(), pool._members[0].state()
        await pool.update(bucket(2, name="v"))
        await pool.end_update(2)
        served = [fake.serves for fake in fakes]
        lose(pool, "a")
        fakes[0].serves = 2
        await look(pool, "a")
        await pool.generate(request(prompt=[1]))
        await pool.generate(request(prompt=[2]))
        torn = list(fakes[0].asked)
        await update(pool, 3, bucket(3))
        await asyncio.gather(pool.generate(request(4, prompt=[4])), pool.generate(request(5, prompt=[5])))
        lose(pool, "a")
        await look(pool, "a")
        return began, during, served, torn, pool._members[0].state()

    began, during, served, torn, ended = with_pool(fakes, work)

    assert began == {"a#1": 1, "b#1": 1}
    assert during == ({"b#1": 1}, "a: up, but with weights of another version")
    assert (served, torn, ended) == ([1, 2], [], "a: up")
    assert "v" not in fakes[0].weights
    assert len(fakes[0].asked) == 1


def test_an_update_goes_on_without_a_lost_server():
    """And without any server it does not."""
    fakes = [Fake("a"), Fake("b")]

    async def work(pool):
        fakes[0].faults["update"] = LOST
        await update(pool, 1, bucket(1), bucket(2))
        served = [fake.serves for fake in fakes]
        fakes[1].faults["end_update"] = ServerLostError("out of memory")
        with pytest.raises(RunError, match=r"no server is left: a: lost: connection reset; b: lost: out of memory; .*--resume"):
            await update(pool, 2, bucket(3))
        return served

    assert with_pool(fakes, work) == [None, 1]
    assert fakes[0].log.count("update") == 1


def test_an_update_waits_for_a_server():
    """Where there is none when it begins."""
    fakes = [Fake("a")]

    async def work(pool):
        lose(pool, "a")
        task = asyncio.create_task(update(pool, 1, bucket(1)))
        await turns()
        began = "begin_update" in fakes[0].log
        await look(pool, "a")
        await task
        return began

    assert with_pool(fakes, work, wait_for_server_s=1000.0) is False
    with pytest.raises(RunError, match="no server is left for an update: a: lost: "):
        with_pool([Fake("a")], lambda pool: (lose(pool, "a"), pool.begin_update())[1])


def test_another_error_of_a_server_ends_the_update():
    """It would be the same at every server."""
    fakes = [Fake("a", reads_memory=True), Fake("b", reads_memory=True)]
    fakes[1].faults["update"] = RunError("no weight w")

    with pytest.raises(RunError, match="no weight w"):
        with_pool(fakes, lambda pool: update(pool, 1, bucket(1), bucket(2)))


def test_buckets_come_one_after_the_other():
    """While a slow server reads the first, the second is written, but nobody gets it; what is read is what was sent."""
    written = threading.Semaphore(0)
    fakes = [Fake("a", reads_memory=True), Fake("b", reads_memory=True)]

    async def work(pool):
        slow = fakes[0].holds["update"] = asyncio.Event()
        for one in pool._segments:
            one.write = lambda tensors, write=one.write: (write(tensors), written.release())[0]
        await pool.begin_update()
        await pool.update(bucket(1, name="first"))
        second = asyncio.create_task(pool.update(bucket(2, name="second")))
        await asyncio.to_thread(written.acquire)
        await asyncio.to_thread(written.acquire)
        await turns()
        before = [list(fake.log) for fake in fakes], second.done()
        slow.set()
        await second
        await pool.update(bucket(3, name="third"))
        await pool.end_update(1)
        return before

    before = with_pool(fakes, work)

    first = ["start", "begin_update", "update"]
    assert before == ([first, [*first, "updated"]], False)
    for fake in fakes:
        assert fake.log[:9] == ["start", "begin_update", *["update", "updated"] * 3, "end_update"]
        assert {name: tensor.tolist() for name, tensor in fake.weights.items()} == {
            "first": [1.0] * 4,
            "second": [2.0] * 4,
            "third": [3.0] * 4,
        }


def test_tensors_are_the_callers_again_when_no_copy_was_made():
    """`update` of servers that take them as they are returns when they have them."""
    fakes = [Fake("a"), Fake("b", reads_memory=True)]

    async def work(pool):
        await pool.begin_update()
        tensor = torch.ones(3)
        await pool.update([("w", tensor)])
        tensor.zero_()
        await pool.end_update(1)

    with_pool(fakes, work)

    assert [fake.weights["w"].tolist() for fake in fakes] == [[1.0] * 3] * 2


def test_an_update_that_failed_does_not_reach_into_the_next():
    """What a server was still reading is given up."""
    fakes = [Fake("a", reads_memory=True)]

    async def work(pool):
        fakes[0].holds["update"] = asyncio.Event()
        await pool.begin_update()
        await pool.update(bucket(1, name="old"))
        await turns()
        await pool.begin_update()
        del fakes[0].holds["update"]
        await pool.update(bucket(2, name="new"))
        await pool.end_update(1)

    with_pool(fakes, work)

    assert list(fakes[0].weights) == ["new"]


def test_servers_with_different_weights_are_told_apart():
    """The first in their order is compared with each other one; one that waits for the next update is not asked."""
    fakes = [Fake("a"), Fake("b"), Fake("c"), Fake("d")]

    async def work(pool):
        await update(pool, 1, bucket(1))
        fakes[3].weights["w"].zero_()
        lose(pool, "d")
        fakes[3].serves = None
        await look(pool, "d")
        agreed = await pool.fingerprint()
        lose(pool, "b")
        fakes[0].holds["fingerprint"] = asyncio.Event()
        fakes[2].weights["w"][1] = 7.0
        task = asyncio.create_task(pool.fingerprint())
        await turns()
        fakes[0].holds["fingerprint"].set()
        with pytest.raises(RunError, match=r"a \(first\) and c \(second\) have got different weights: w is"):
            await task
        return agreed

    assert with_pool(fakes, work) == fingerprint(bucket(1))
    assert "fingerprint" not in fakes[3].log


def test_every_worker_has_a_rank_of_its_own():
    """From 1 on, in the order of the members; a server that is down has none."""
    fakes = [Fake("a", workers=2), Fake("b"), Fake("c", workers=4)]
    place = GroupPlace(address="127.0.0.1", port=1, rank=0, world_size=8, name="g", backend="gloo")

    async def work(pool):
        await pool.begin_update()
        first = pool.members()
        await pool.join_group(place)
        lose(pool, "a")
        await pool.begin_update()
        await pool.join_group(place)
        return first, pool.members()

    assert with_pool(fakes, work) == ({"a#1": 2, "b#1": 1, "c#1": 4}, {"b#1": 1, "c#1": 4})
    assert [fake.ranks for fake in fakes] == [[1], [3, 1], [4, 2]]


def test_the_transport_of_shared_memory_reaches_all():
    """Buckets in shared memory to some, as they are to others; a tensor that one server loses stops the run."""
    fakes = [Fake("a", reads_memory=True), Fake("b"), Fake("c", reads_memory=True)]
    tensors = {f"layer.{number}": torch.randn(300, 1000).bfloat16() for number in range(6)}

    class Source:
        def export_weights(self):
            yield from tensors.items()

    async def work(pool):
        report = await SharedMemory(SharedMemoryConfig(bucket_mb=1)).sync(Source(), pool, 3)
        fine = [dict(fake.weights) for fake in fakes]
        fakes[2].reader.read = lambda note: ((n, t * (n != "layer.4")) for n, t in Reader().read(note))
        with pytest.raises(RunError, match=r"a \(first\) and c \(second\) have got different weights: layer\.4 is"):
            await SharedMemory(SharedMemoryConfig(bucket_mb=1)).sync(Source(), pool, 4)
        return report, fine

    report, fine = with_pool(fakes, work)

    assert (report.version, report.num_bytes) == (3, 6 * 300 * 1000 * 2)
    assert all(torch.equal(found[name], tensor) for found in fine for name, tensor in tensors.items())
    assert fakes[0].log.count("update") == 2 * 3


# The rest


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("pause", ["keep"]),
        ("resume", []),
        ("sleep", []),
        ("wake", []),
        ("update_from_disk", ["/x"]),
        ("update_from_group", [[]]),
    ],
)
def test_all_servers_are_told(call, arguments):
    """At once; one that is lost on the way is left out."""
    fakes = [Fake("a"), Fake("b"), Fake("c")]
    fakes[1].faults[call] = LOST

    async def work(pool):
        await pool.begin_update()
        await getattr(pool, call)(*arguments)
        await getattr(pool, call)(*arguments)
        return [member.up for member in pool._members]

    assert with_pool(fakes, work, sleep=True) == [True, False, True]
    assert [fake.log.count(call) for fake in fakes] == [2, 1, 2]


@pytest.mark.parametrize("call", ["sleep", "wake"])
def test_servers_stay_awake_unless_they_are_to_sleep(call):
    """The loop asks for it after every rollout; the option `sleep` decides."""
    fake = Fake("a")
    with_pool([fake], lambda pool: getattr(pool, call)())

    assert fake.log.count(call) == 0


def test_a_server_that_is_lost_while_all_sleep_comes_back_awake():
    """And not before the others wake: until then its memory is the trainer's."""
    fakes = [Fake("a"), Fake("b")]

    async def work(pool):
        await pool.sleep()
        lose(pool, "a")
        await look(pool, "a")
        before = list(fakes[0].log)
        await pool.wake()
        await look(pool, "a")
        return before, pool._members[0].up

    before, up = with_pool(fakes, work, sleep=True)
    assert (before, up) == (["start", "sleep"], True)
    assert fakes[0].log == ["start", "sleep", "recover", "health", "wake", "close"]


def test_stats_count_since_the_last_call(monkeypatch):
    """Tokens, retries, and the time with anything in flight: once, however many are."""
    clock = SimpleNamespace(now=10.0)
    monkeypatch.setattr("core_rl.serving.pool.time", SimpleNamespace(monotonic=lambda: clock.now))
    fakes = [Fake("a")]

    async def work(pool):
        fakes[0].holds["generate"] = asyncio.Event()
        tasks = [asyncio.create_task(pool.generate(request(number, n=2))) for number in range(2)]
        await turns()
        clock.now = 13.0
        during = pool.stats()
        clock.now = 20.0
        fakes[0].holds["generate"].set()
        await asyncio.gather(*tasks)
        clock.now = 99.0
        return during, pool.stats(), pool.stats()

    during, after, idle = with_pool(fakes, work)

    nothing = {"rollout/tokens": 0.0, "rollout/retries": 0.0, "rollout/busy_s": 0.0, "rollout/servers": 1.0}
    assert during == {**nothing, "rollout/busy_s": 3.0}
    assert after == {**nothing, "rollout/tokens": 8.0, "rollout/busy_s": 7.0}
    assert idle == nothing


def test_a_start_that_fails_can_be_closed():
    """The message is the server's own; the others are not waited for; all are closed, also where one cannot be."""
    fakes = [Fake("a"), Fake("b"), Fake("c")]
    fakes[1].faults["start"] = RunError("b ended with exit code 1")
    fakes[0].faults["close"] = OSError("cannot")

    async def work():
        fakes[2].holds["start"] = asyncio.Event()
        pool = pool_of(fakes)
        with pytest.raises(RunError, match=r"^b ended with exit code 1$"):
            await pool.start()
        await pool.close()
        await pool.close()

    asyncio.run(work())

    assert [fake.log[-1] for fake in fakes] == ["close"] * 3


def test_nothing_is_left_in_memory():
    """Closed in the middle of an update, with a server still reading."""
    fakes = [Fake("a", reads_memory=True)]

    async def work(pool):
        fakes[0].holds["update"] = asyncio.Event()
        await pool.begin_update()
        await pool.update(bucket(1))
        return files()

    def files():
        return list(segment.FOLDER.glob(f"core-rl-{os.getpid()}-*"))

    assert len(with_pool(fakes, work)) == 1
    assert files() == []


def test_servers_may_be_named_later():
    """When their arguments are known with the start."""

    async def work():
        pool = pool_of(())
        pool.add([Fake("a")])
        await pool.start()
        await pool.generate(request())
        await pool.close()

    asyncio.run(work())


def test_every_server_is_asked():
    """By its name; one that is lost on the way, and one that serves something else, are left out."""
    fakes = [Fake(name) for name in "abcd"]
    fakes[1].faults["generate"] = LOST

    async def work(pool):
        pool._members[3].fresh = False
        return await pool.generate_at_each(request(n=2)), [member.up for member in pool._members]

    found, up = with_pool(fakes, work)

    assert {name: len(completions) for name, completions in found.items()} == {"a": 2, "c": 2}
    assert up == [True, False, True, True]
