"""The reward `judge`, against a real server with faults."""

from __future__ import annotations

import asyncio
import email.utils
import pickle
import time

import pytest
from core_rl_example_judge.config import JudgeConfig
from core_rl_example_judge.reward import Judge
from core_rl_example_judge.verdict import JudgeError, score
from judge_server import said

from core_rl.data.sample import Prompt, Sample
from core_rl.errors import PluginError

KEY = "sk-very-secret"
GOOD = said("Right.\nSCORE: 7")
BUSY = 429, {"Retry-After": "0"}, "slow down"


def sample(completion="8", *, answer=None, prompt="38="):
    return Sample(prompt=Prompt(id="p", text=prompt, answer=answer), turns=[], finish_reason="stop", completion_text=completion)


def make(server, **options):
    return Judge(JudgeConfig(url=server.url, model="judge-1", **{"backoff_s": 0.01, **options}))


def run(reward, *samples):
    """The outcomes of samples that are scored at once."""

    async def all_of_them():
        return await asyncio.gather(*(reward.score(one) for one in samples))

    return asyncio.run(all_of_them())


def in_order(*answers):
    return lambda number, _: answers[min(number, len(answers) - 1)]


def test_the_reward_is_the_score_over_the_scale(serve):
    """And the judge reads the task, the reference and the answer."""
    server = serve(in_order(GOOD))
    [outcome] = run(make(server), sample("eight", answer="8"))

    [request] = server.requests
    assert (outcome.value, outcome.info) == (0.7, {"judge": "Right.\nSCORE: 7"})
    assert (request["path"], request["body"]["model"], request["body"]["temperature"]) == ("/v1/chat/completions", "judge-1", 0)
    told = request["body"]["messages"][1]["content"]
    assert told == "<task>\n38=\n</task>\n<reference>\n8\n</reference>\n<answer>\neight\n</answer>"


@pytest.mark.parametrize("fault", [BUSY, (500, {}, "oops"), (503, {}, ""), (0.6, GOOD)], ids=["429", "500", "503", "slow"])
def test_a_fault_that_passes_is_tried_again(serve, fault):
    """Busy, broken for a moment, or too slow once."""
    server = serve(in_order(fault, GOOD))
    [outcome] = run(make(server, timeout_s=0.3), sample())

    assert outcome.value == 0.7
    assert len(server.requests) == 2


def test_a_lost_connection_is_tried_again_and_told():
    """Nobody listens at that port."""
    reward = Judge(JudgeConfig(url="http://127.0.0.1:9/v1", model="m", retries=1, backoff_s=0.01))

    with pytest.raises(JudgeError, match=r"http://127.0.0.1:9/v1/chat/completions: ClientConnectorError.* after 2 tries"):
        run(reward, sample())


def test_tries_come_to_an_end(serve):
    """With the last answer of the server in the message."""
    server = serve(in_order((500, {}, "out of memory")))

    with pytest.raises(JudgeError, match="500 out of memory after 3 tries"):
        run(make(server, retries=2), sample())
    assert len(server.requests) == 3


def test_the_server_says_how_long_to_wait(serve):
    """`Retry-After` as seconds is kept to; as a date that is past it means now."""
    server = serve(in_order((429, {"Retry-After": "1"}, ""), (429, {"Retry-After": email.utils.formatdate(0)}, ""), GOOD))
    begin = time.monotonic()
    [outcome] = run(make(server), sample())

    assert outcome.value == 0.7
    assert 1.0 <= time.monotonic() - begin < 5.0


def test_a_wait_that_is_too_long_is_refused(serve):
    """Nothing stands still for an hour, and the message says what was asked."""
    server = serve(in_order((429, {"Retry-After": "3600"}, "quota")))

    with pytest.raises(JudgeError, match=r"429 quota after 1 try, which asks to wait 3600 s \(max_wait_s is 10\)"):
        run(make(server), sample())
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [302, 400, 401, 404])
def test_a_refusal_is_not_tried_again(serve, status):
    """No further try would mend it."""
    server = serve(in_order((status, {"Location": "/elsewhere"}, "no")))

    with pytest.raises(JudgeError, match=f"{status} no"):
        run(make(server), sample())
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        (200, {}, "<html>gateway</html>"),
        (200, {}, "{}"),
        (200, {}, '{"choices": []}'),
        (200, {}, '{"choices": [{"message": null}]}'),
    ],
    ids=["html", "empty", "no choice", "no message"],
)
def test_garbage_is_an_error(serve, answer):
    """What is no chat completion is told, with how it begins."""
    with pytest.raises(JudgeError, match="no chat completion; it begins"):
        run(make(serve(in_order(answer))), sample())


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("SCORE: 7", 7.0),
        ("Good.\n\n**Score:** 7.5\n", 7.5),
        ("score: 10/10.", 10.0),
        ("SCORE: 3\nOn second thought:\nSCORE: 0", 0.0),
    ],
)
def test_a_score_is_the_last_line(reply, value):
    """With the decorations that models like."""
    assert score(reply, 10) == value


@pytest.mark.parametrize(
    "reply", ["", "7", "SCORE: 7 or 8", "SCORE: seven", "SCORE: 7\nbye", "SCORE: 4/5", "SCORE: -1", "SCORE: 11", "SCORE: 1e9"]
)
def test_a_reply_without_a_clear_score_is_an_error(reply):
    """It is never read as some number."""
    with pytest.raises(JudgeError):
        score(reply, 10)


def test_nothing_is_asked_twice(serve):
    """Not the same text at once, and not the same text later; another answer is another request."""
    server = serve(in_order((0.1, GOOD)))
    reward = make(server)

    async def twice():
        first = await asyncio.gather(*(reward.score(sample("8")) for _ in range(5)))
        return [*first, await reward.score(sample("8")), await reward.score(sample("3"))]

    assert [outcome.value for outcome in asyncio.run(twice())] == [0.7] * 7
    assert len(server.requests) == 2


def test_what_failed_is_asked_again(serve):
    """A verdict is kept, and a failure is not."""
    server = serve(in_order((400, {}, "no"), GOOD))
    reward = make(server)

    async def twice():
        with pytest.raises(JudgeError):
            await reward.score(sample())
        return await reward.score(sample())

    assert asyncio.run(twice()).value == 0.7


def test_the_cache_is_bounded(serve):
    """What was used longest ago is asked again."""
    server = serve(in_order(GOOD))
    reward = make(server, cache_size=2)

    async def in_turn():
        for text in ("a", "b", "a", "c", "a", "b"):
            await reward.score(sample(text))

    asyncio.run(in_turn())
    told = [request["body"]["messages"][1]["content"].split("<answer>\n")[1][0] for request in server.requests]
    assert told == ["a", "b", "c", "b"]


def test_one_that_gives_up_does_not_take_the_others_with_it(serve):
    """Two samples wait for one request, and the first is cancelled."""
    server = serve(in_order((0.2, GOOD)))
    reward = make(server)

    async def both():
        first = asyncio.create_task(reward.score(sample()))
        second = asyncio.create_task(reward.score(sample()))
        await asyncio.sleep(0.05)
        first.cancel()
        return await second

    assert asyncio.run(both()).value == 0.7
    assert len(server.requests) == 1


def test_requests_in_flight_are_bounded(serve):
    """Twelve samples, three at a time."""
    server = serve(in_order((0.05, GOOD)))
    outcomes = run(make(server, max_concurrency=3), *(sample(str(number)) for number in range(12)))

    assert len(outcomes) == 12
    assert server.most_at_once == 3


def test_the_key_goes_to_the_server_and_nowhere_else(serve, monkeypatch):
    """Not into errors, although the server repeats it, nor into the pickle."""
    monkeypatch.setenv("JUDGE_KEY", KEY)
    server = serve(in_order((401, {}, f"bad key {KEY}")))
    reward = make(server, api_key_env="JUDGE_KEY")

    with pytest.raises(JudgeError, match=r"401 bad key \*\*\*") as caught:
        run(reward, sample())
    assert server.requests[0]["headers"]["Authorization"] == f"Bearer {KEY}"
    assert KEY not in repr(caught.value.__dict__) + str(caught.value)
    assert KEY.encode() not in pickle.dumps(reward)
    assert isinstance(pickle.loads(pickle.dumps(reward)), Judge)


def test_a_key_that_is_missing_is_told_at_once(monkeypatch):
    """Before a model is loaded, with the variable's name."""
    monkeypatch.delenv("JUDGE_KEY", raising=False)

    with pytest.raises(PluginError, match="environment variable JUDGE_KEY, which is not set"):
        Judge(JudgeConfig(url="http://localhost/v1", model="m", api_key_env="JUDGE_KEY"))


@pytest.mark.parametrize(
    ("option", "value"),
    [("url", "localhost:8000"), ("url", "https://me:pw@judge/v1"), ("api_key_env", KEY), ("max_score", 0), ("timeout_s", 0)],
)
def test_options_that_cannot_be_are_refused(option, value):
    """And what may be a secret is not repeated."""
    with pytest.raises(ValueError) as caught:
        JudgeConfig(**{"url": "http://localhost/v1", "model": "m", option: value})
    assert not {"pw", KEY} & set(str(caught.value).replace("@", " ").replace(":", " ").split())


def test_a_run_that_leaves_no_time_is_refused(tmp_path):
    """The rewards' own time-out must be above that of one try."""
    from core_rl.config.load import load_run_file
    from core_rl.errors import ConfigError

    file = tmp_path / "run.yaml"
    file.write_text(
        'model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}\n'
        "data: {name: jsonl, path: rows.jsonl}\nrun: {reward_timeout_s: 15}\nalgorithm: grpo\n"
        "rewards: [{name: judge, url: 'http://localhost/v1', model: m}]\n"
    )
    with pytest.raises(
        ConfigError, match=r"the judge may take 20 s, and a reward has failed after 15: raise run.reward_timeout_s"
    ):
        load_run_file(file)
