"""Servers that break: each request is answered once, by another server or by the same one when it is back."""

from __future__ import annotations

import asyncio
import sys
import types
from pathlib import Path

import attrs
import pytest

from core_rl.builtin.collective import Collective
from core_rl.builtin.config import CollectiveConfig
from core_rl.errors import RunError, UserError
from core_rl.hf.folder import ModelFolder
from core_rl.ports import free_port
from core_rl.roles.rollout import RolloutContext, ScoreRequest
from core_rl.serving.process import ServerProcess
from core_rl.serving.replica import ServerLostError
from core_rl.testing.rollout_engine.bench import FREE, MODEL, RolloutBench
from core_rl.weights.group import leave
from core_rl_sglang._server import SglangServer
from core_rl_sglang.config import SglangConfig
from core_rl_sglang.rollout import SglangRolloutEngine

from .double import ENVIRONMENT


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """Two servers. What breaks is told to one of them: the first that is asked."""
    options = {
        "env": ENVIRONMENT,
        "servers": 2,
        "request_timeout_s": 20.0,
        "health_every_s": 0.2,
        "restarts": 5,
        "log_dir": str(tmp_path_factory.mktemp("logs")),
    }
    bench = RolloutBench(engine_name="sglang", options=options, dtype="float32", logprob_tolerance=1e-4)
    try:
        yield bench.open()
    finally:
        bench.close()


def servers(bench) -> list[SglangServer]:
    return [member.replica for member in bench.engine._members]


async def everyone_there(bench, *, but=0):
    async with asyncio.timeout(60):
        while [member.up for member in bench.engine._members].count(False) != but:  # noqa: ASYNC110 - the pool looks after them
            await asyncio.sleep(0.05)


async def everyone_up(bench):
    await everyone_there(bench)
    await bench.send(list(bench.weights().items()))  # one that was started again waits for weights


@pytest.mark.parametrize(("place", "fault"), list(enumerate(["500", "drop", "half", "end"])))
def test_a_server_that_breaks(bench, place, fault):
    """All answers are whole, and the same as without the fault; tokens are counted once."""

    def several():  # prompts that no server has seen: they are shared out evenly, and go where they were the second time
        return asyncio.gather(*(bench.sample(n=2, seed=k, prompt=[3 + k, 3 + place, 5]) for k in range(6)))

    async def work():
        await everyone_up(bench)
        expected = await several()
        bench.engine.stats()
        await servers(bench)[0].client.post("/break_next", {"faults": [fault]})
        return expected, await several(), bench.engine.stats()

    expected, found, stats = bench.run(work())

    tokens = [[one.tokens for one in each] for each in found]
    assert tokens == [[one.tokens for one in each] for each in expected]
    assert stats["rollout/tokens"] == 6 * 2 * 12
    assert stats["rollout/retries"] >= 1


async def end_one(bench):
    """At once, whatever it is doing. Returns when the pool knows."""
    server = servers(bench)[0]
    await server.client.post("/break_next", {"faults": ["end"]})
    with pytest.raises(ServerLostError):
        await server.client.post("/generate", {})
    await everyone_there(bench, but=1)


async def everyone_says(bench):
    return [completion for (completion,) in (await bench.engine.generate_at_each(bench.request())).values()]


def test_a_server_that_ends_in_the_middle_of_an_update(bench):
    """The other one has the update. When it is back it takes the next, though nobody has ended the one before at the new process."""

    async def work():
        await everyone_up(bench)
        first, *others = bench.weights().items()
        bench.version += 1
        await bench.engine.begin_update()
        await bench.engine.update([first])
        await end_one(bench)
        await bench.engine.update(others)
        await bench.engine.end_update(bench.version)
        one = await everyone_says(bench)
        await everyone_up(bench)
        return one, await everyone_says(bench)

    one, both = bench.run(work())
    assert (len(one), len(both)) == (1, 2)
    bench.compare("after", [*one, *both], FREE)


def test_a_server_that_is_back_joins_a_new_group(bench):
    """It knows nothing of the group that it has left by ending."""
    transport = Collective(CollectiveConfig(backend="gloo", timeout_s=60.0))
    source = types.SimpleNamespace(export_weights=lambda: iter(bench.weights().items()))

    async def update():
        bench.version += 1
        await transport.sync(source, bench.engine, bench.version)

    async def work():
        await everyone_up(bench)
        await update()
        await end_one(bench)
        await everyone_up(bench)
        await update()
        return await everyone_says(bench)

    found = bench.run(work())
    leave(transport._group)
    assert len(found) == 2
    bench.compare("after", found, FREE)


def test_a_server_that_does_not_answer(bench):
    """After the time that the options allow, another one is asked."""

    async def work():
        await everyone_up(bench)
        for server in servers(bench):
            server.client._timeout_s = 1.0
        await servers(bench)[0].client.post("/break_next", {"faults": ["slow"]})
        try:
            return await asyncio.gather(*(bench.sample(seed=k, prompt=[9, 3 + k]) for k in range(4)))
        finally:
            for server in servers(bench):
                server.client._timeout_s = 20.0

    assert all(len(one.tokens) == 12 for (one,) in bench.run(work()))


def test_a_bucket_that_no_model_has(bench):
    """The server says which weight, and goes on."""

    async def work():
        await everyone_up(bench)
        name, tensor = next(iter(bench.weights().items()))
        await bench.engine.begin_update()
        with pytest.raises(RunError, match=r"update_weights_from_tensor: 400.*cannot read"):
            await servers(bench)[0]._load("memory", {"path": "/dev/shm/nowhere", "size": 8, "tensors": [], "host": "elsewhere"})
        await bench.engine.begin_update()  # the one before it was not ended
        await bench.engine.update([(name, tensor)])
        await bench.send(list(bench.weights().items()))
        return await bench.sample()

    (found,) = bench.run(work())
    bench.compare("after", [found], FREE)


def test_scores_have_one_temperature(bench):
    """SGLang says log-probabilities of given tokens as the model has them."""
    with pytest.raises(UserError, match=r"SGLang scores given tokens at temperature 1 alone, and 0\.5 is asked for"):
        bench.run(bench.engine.score(ScoreRequest(id="s", tokens=[3, 4], temperature=0.5)))


def test_memory_is_given_and_taken_back(bench):
    """Between the rollouts, where the option says so."""

    async def work():
        await everyone_up(bench)
        for server in servers(bench):
            await server.wake()  # as at the start of a run, when it is awake
            await server.sleep()
            await server.sleep()
            await server.wake()
        for server in servers(bench):
            await server.sleep()
        await end_one(bench)
        await everyone_there(bench)
        for server in servers(bench):
            await server.wake()  # one of them has never slept
        await everyone_up(bench)
        return await bench.sample(), [member.up for member in bench.engine._members]

    (found,), up = bench.run(work())
    assert len(found.tokens) == 12
    assert up == [True, True]


def context() -> RolloutContext:
    return RolloutContext(model=attrs.evolve(MODEL, dtype="float32"), seed=5)


def started(**options) -> None:
    async def work():
        engine = SglangRolloutEngine(SglangConfig(**options), context())
        try:
            await engine.start()
        finally:
            await engine.close()

    asyncio.run(work())


def test_an_option_that_the_version_lacks():
    """One line with the nearest name, of SGLang's own or of its flags."""
    with pytest.raises(
        RunError, match=r"rollout_engine.args.tp_sizes: SGLang 0.5.23 has no such option; did you mean tp_size\?"
    ):
        started(env=ENVIRONMENT, args={"tp_sizes": 2})


def test_servers_with_data_parallel_workers():
    """SGLang refuses to update them."""
    with pytest.raises(UserError, match=r"rollout_engine.args.dp_size.*take rollout_engine.servers"):
        started(env=ENVIRONMENT, args={"data_parallel_size": 2})


@pytest.mark.parametrize("key", ["secret", None])
def test_a_server_with_a_key(key):
    """It is asked for, and sent; without it nothing is done."""
    port = free_port()
    folder = ModelFolder(context().model, seed=5)
    flags = ["--model-path", folder.path, "--port", str(port), "--api-key", "secret", "--context-length", "258"]
    command = [sys.executable, "-m", "core_rl_sglang.serve", *flags]

    async def work(tmp):
        process = ServerProcess(name="theirs", command=command, environment=ENVIRONMENT, log=tmp)
        url = f"http://127.0.0.1:{port}"
        options = SglangConfig(url=(url,), api_key=key)
        server = SglangServer(options, url=url, number=0, arguments={}, end_ids=(), context_length=256)
        try:
            await process.start(server.health, timeout_s=60)
            await server.start()
            return await server.version()
        finally:
            await server.close()
            await process.stop()

    try:
        log = Path(folder.path) / "log"
        if key is None:
            with pytest.raises(UserError, match=r"401.*python -m core_rl_sglang.serve"):
                asyncio.run(work(log))
        else:
            assert asyncio.run(work(log)) is None  # of the weights that it was started with
    finally:
        folder.close()
