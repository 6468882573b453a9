"""Three servers that fail at random, over HTTP, with 256 requests in flight and an update of the weights among them."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack

import pytest
import torch
from aiohttp import web

from core_rl.data.sample import VersionSpan
from core_rl.fingerprint import fingerprint
from core_rl.roles.rollout import Completion, GenerateRequest, SamplingParams
from core_rl.serving.config import PoolConfig
from core_rl.serving.http import Client
from core_rl.serving.pool import PoolEngine
from core_rl.weights.segment import Reader

COUNT = 256


class Faults:
    """So many, and then none; which request has one is the dice's business. Nothing is answered before all are in flight."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        kinds = ["500", "503", "drop", "half", "nan", "few", "text"]
        self.left = kinds + self.dice.choices(kinds, k=6)
        self.arrived, self.everyone = 0, asyncio.Event()

    async def next(self, *, sound):
        self.arrived += 1
        if self.arrived == COUNT:
            self.everyone.set()
        await self.everyone.wait()
        return self.left.pop() if not sound and self.left and self.dice.random() < 0.1 else None


class Server:
    """An answer is the prompt and the number of the sample. Its weights are those that it has read."""

    def __init__(self, faults):
        self.faults, self.sound, self.version, self.weights, self.reader = faults, False, None, {}, Reader()
        self.app = web.Application()
        self.app.router.add_route("*", "/{call}", self.answer)

    async def answer(self, request):
        call = request.match_info["call"]
        body = await request.json() if request.can_read_body else None
        return await self.generate(request, body) if call == "generate" else web.json_response(await getattr(self, call)(body))

    async def health(self, _):
        return "fine"

    async def generate(self, request, body):
        fault = await self.faults.next(sound=self.sound)
        if fault in ("500", "503"):
            return web.Response(status=int(fault), text="a CUDA error")
        if fault == "text":
            return web.Response(text="hello")
        samples = [{"tokens": [*body["prompt"], number], "logprob": -1.0} for number in range(body["n"])]
        if fault == "few":
            samples.pop()
        if fault == "nan":
            samples[-1]["logprob"] = float("nan")
        if fault in ("drop", "half"):
            response = web.StreamResponse()
            if fault == "half":
                await response.prepare(request)
                await response.write(b'[{"tokens": [')
            request.transport.close()
            return response
        return web.json_response({"samples": samples, "version": self.version})

    async def served(self, _):
        return self.version

    async def update(self, note):
        self.weights |= {name: tensor.clone() for name, tensor in self.reader.read(note)}

    async def end(self, version):
        self.version = version

    async def fingerprint(self, _):
        return fingerprint(self.weights.items())


class Replica:
    """As a plugin has it."""

    workers, reads_memory = 1, True

    def __init__(self, url):
        self.name, self.client = url, Client(url, timeout_s=30.0)

    async def start(self):
        await self.health()

    async def health(self):
        await self.client.get("/health")

    async def recover(self): ...

    async def version(self):
        return await self.client.post("/served", {})

    async def generate(self, request):
        answer = await self.client.post("/generate", {"prompt": list(request.prompt_ids), "n": request.n})
        return [
            Completion(
                tokens=sample["tokens"],
                logprobs=[sample["logprob"]] * len(sample["tokens"]),
                finish_reason="stop",
                versions=[VersionSpan(start=0, end=len(sample["tokens"]), version=answer["version"])],
            )
            for sample in answer["samples"]
        ]

    async def begin_update(self): ...

    async def update(self, bucket):
        await self.client.post("/update", await bucket.note())

    async def end_update(self, version):
        await self.client.post("/end", version)

    async def fingerprint(self):
        return await self.client.post("/fingerprint", {})

    async def close(self):
        await self.client.close()


async def update(pool, version):
    weights = {"a": torch.full((500,), float(version)), "b": torch.full((3,), -float(version))}
    await pool.begin_update()
    for item in weights.items():
        await pool.update([item])
    await pool.end_update(version)
    return weights


@pytest.mark.parametrize(("seed", "updates"), [(0, False), (1, False), (2, True), (3, True)])
def test_every_request_is_answered_once(seed, updates):
    """With its own answer, of a version that was served; whoever takes requests at the end has the weights of the last update."""

    async def main():
        faults = Faults(seed)
        async with AsyncExitStack() as stack:
            servers, urls = [Server(faults) for _ in range(3)], []
            servers[2].sound = updates  # an update needs a server that gets all of it
            for server in servers:
                runner = web.AppRunner(server.app, shutdown_timeout=0.0, access_log=None)
                await runner.setup()
                stack.push_async_callback(runner.cleanup)
                await web.TCPSite(runner, "127.0.0.1", 0).start()
                urls.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
            options = PoolConfig(health_every_s=0.02, wait_for_server_s=60.0, retries=1000)
            pool = PoolEngine([Replica(url) for url in urls], options)
            stack.push_async_callback(pool.close)
            await pool.start()
            first = await update(pool, 1)
            params = SamplingParams()
            tasks = [
                asyncio.create_task(
                    pool.generate(GenerateRequest(id=str(i), prompt_ids=[i % 50, i], params=params, n=1 + i % 3))
                )
                for i in range(COUNT)
            ]
            await faults.everyone.wait()
            weights = await update(pool, 2) if updates else first
            answers = await asyncio.gather(*tasks)
            left = [member.running for member in pool._members]
            return answers, left, faults.left, pool.stats(), weights, await pool.fingerprint()

    answers, left, unused, stats, weights, served = asyncio.run(main())

    assert [[list(one.tokens) for one in answer] for answer in answers] == [
        [[i % 50, i, number] for number in range(1 + i % 3)] for i in range(COUNT)
    ]
    assert {one.versions[0].version for answer in answers for one in answer} <= ({1, 2} if updates else {1})
    assert left == [0, 0, 0]
    assert len(unused) < 13 if updates else not unused
    assert stats["rollout/tokens"] == sum(3 * (1 + i % 3) for i in range(COUNT))
    assert stats["rollout/retries"] > 0
    assert served == fingerprint(weights.items())
