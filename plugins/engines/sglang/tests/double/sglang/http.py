"""The routes of the double: one worker, whose completions the engine `local` samples."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import pickle
import types
from pathlib import Path

from aiohttp import web
from sglang import BaseTpWorker, WeightUpdater, __version__

from core_rl.hf.spec import ModelSpec
from core_rl.roles.rollout import GenerateRequest, RolloutContext, SamplingParams, ScoreRequest
from core_rl.weights.buckets import TensorSpec
from core_rl.weights.group import GroupPlace, join, leave, receive
from core_rl_local.config import LocalRolloutConfig
from core_rl_local.rollout import LocalRolloutEngine

INITIAL = "default"


class Model:
    """What `load_weights` is given waits here until the engine takes it."""

    def __init__(self):
        self.arrived = []

    def load_weights(self, weights):
        self.arrived += [(name, tensor.clone()) for name, tensor in weights]


class Double:
    def __init__(self, arguments):
        self.arguments = arguments
        spec = ModelSpec(path=arguments.model_path, dtype=arguments.dtype)
        self.engine = LocalRolloutEngine(LocalRolloutConfig(), RolloutContext(model=spec, seed=arguments.random_seed))
        self.model = Model()
        self.worker = BaseTpWorker(types.SimpleNamespace(model=self.model))
        self.updater = WeightUpdater(lambda: self.model)
        self.label = INITIAL
        self.session = False
        self.paused = None
        self.groups = {}
        self.running = set()
        self.asleep = False
        self.faults = []
        self.served = 0

    # requests

    async def generate(self, body):
        self.served += 1
        if self.arguments.stop_after is not None and self.served > self.arguments.stop_after:
            os._exit(3)
        if isinstance(body["rid"], str):
            return await self.score(body)
        return await asyncio.gather(
            *(self.one(*each) for each in zip(body["rid"], body["input_ids"], body["sampling_params"], strict=True))
        )

    async def one(self, rid, ids, params):
        room = self.arguments.context_length - len(ids)
        if room < params["max_new_tokens"]:
            refuse(f"{len(ids)} tokens and {params['max_new_tokens']} new ones are more than the context holds")
        top_k = params["top_k"]
        request = GenerateRequest(
            id=rid,
            prompt_ids=ids,
            seed=params["sampling_seed"],
            params=SamplingParams(
                temperature=params["temperature"],
                top_p=params["top_p"],
                top_k=None if top_k == -1 else top_k,
                max_new_tokens=min(params["max_new_tokens"], room - 2),  # SGLang ends two tokens before the context
                min_new_tokens=params["min_new_tokens"],
                stop=tuple(params.get("stop", ())),
                stop_token_ids=tuple(params["stop_token_ids"]),
                ignore_eos=params["ignore_eos"],
                frequency_penalty=params["frequency_penalty"],
            ),
        )
        self.running.add(rid)
        try:
            (found,) = await self.engine.generate(request)
        finally:
            self.running.discard(rid)
        spans = [
            {"version": str(span.version) if span.version else INITIAL, "start": span.start, "end": span.end}
            for span in found.versions
        ]
        about = {
            "id": rid,
            "finish_reason": {"type": found.finish_reason},
            "weight_version": self.label,
            "weight_versions": spans,
            "output_token_logprobs": [
                [logprob, token, None] for logprob, token in zip(found.logprobs, found.tokens, strict=True)
            ],
        }
        return {"text": "", "output_ids": list(found.tokens), "meta_info": about}

    async def score(self, body):
        ids, top_k = body["input_ids"], body["top_logprobs_num"]
        found = await self.engine.score(ScoreRequest(id=body["rid"], tokens=ids, top_k=top_k))
        rows = [
            [None if place == 0 else logprob, token, None]
            for place, (logprob, token) in enumerate(zip(found.logprobs, ids, strict=True))
        ]
        best = [
            [[value, token, None] for value, token in zip(values, tokens, strict=True)] or None
            for values, tokens in zip(found.topk_logprobs, found.topk_ids, strict=True)
        ]
        return {"meta_info": {"input_token_logprobs": rows, "input_top_logprobs": best}}

    async def abort_request(self, body):
        for rid in [rid for rid in self.running if rid.startswith(body["rid"])]:
            await self.engine.abort(rid)

    async def pause_generation(self, body):
        self.paused = body["mode"]
        await self.engine.pause({"in_place": "keep"}.get(self.paused, self.paused))

    async def continue_generation(self, body):
        self.paused = None
        await self.engine.resume()

    async def flush_cache(self, body):
        if self.running and self.paused != "retract":
            refuse("Cache not flushed because there are pending requests.")
        return web.Response(text="Cache flushed.\n")

    # weights

    async def begin_weight_update(self, body):
        if self.session:
            refuse("a weight-update session is already open; call end_weight_update() first")
        self.session = True

    async def end_weight_update(self, body):
        if not self.session:
            refuse("no weight-update session is open; call begin_weight_update() first")
        self.session = False

    async def update_weights_from_tensor(self, body):
        self.in_session("update_weights_from_tensor")
        payload = pickle.loads(base64.b64decode(body["serialized_named_tensors"][0]))
        success, message = self.updater.update_weights_from_tensor(payload, load_format=body["load_format"])
        if not success:
            refuse(message)
        await self.take()

    async def update_weights_from_disk(self, body):
        from safetensors.torch import load_file

        for file in files_of(body["model_path"]):
            self.model.load_weights(load_file(file).items())
        await self.take()

    async def init_weights_update_group(self, body):
        place = GroupPlace(
            address=body["master_address"],
            port=body["master_port"],
            rank=body["rank_offset"],
            world_size=body["world_size"],
            name=body["group_name"],
            backend=body["backend"],
        )
        self.groups[place.name] = await asyncio.to_thread(join, place)

    async def destroy_weights_update_group(self, body):
        if body["group_name"] not in self.groups:
            refuse("The group to be destroyed does not exist.")
        leave(self.groups.pop(body["group_name"]))

    async def update_weights_from_distributed(self, body):
        self.in_session("update_weights_from_distributed")
        described = zip(body["names"], body["dtypes"], body["shapes"], strict=True)
        specs = [TensorSpec(name=name, dtype=dtype, shape=tuple(shape)) for name, dtype, shape in described]
        group = self.groups[body["group_name"]]
        self.model.load_weights(await asyncio.to_thread(lambda: list(receive(group, specs, device="cpu"))))
        await self.take()

    def in_session(self, route):
        if not self.session:
            refuse(f"{route} must run between begin_weight_update() and end_weight_update()")

    async def take(self):
        """Into the engine. Whatever was paused stays so."""
        arrived, self.model.arrived = self.model.arrived, []
        await self.engine.begin_update()
        await self.engine.update(arrived)
        if self.paused is None:
            await self.engine.resume()

    async def update_weight_version(self, body):
        self.label = body["new_version"]
        await self.engine.end_update(int(self.label))
        if self.paused is not None:
            await self.engine.pause("keep")

    async def get_weights_by_name(self, body):
        found = self.worker.get_weights_by_name(types.SimpleNamespace(name=body["name"]))
        if found is None:
            refuse("Get parameter by name failed")
        return found

    # about itself

    async def server_info(self, body):
        return {"version": __version__, "tp_size": self.arguments.tp_size, "pp_size": 1, "dp_size": self.arguments.dp_size}

    async def model_info(self, body):
        return {"model_path": self.arguments.model_path, "weight_version": self.label}

    async def health(self, body):
        return web.Response()

    async def release_memory_occupation(self, body):
        if self.running:
            refuse("release_memory_occupation should be called only when server is idle.")
        self.asleep = True

    async def resume_memory_occupation(self, body):
        if not self.asleep:
            os._exit(4)  # as SGLang does
        self.asleep = False

    async def break_next(self, body):
        """The next requests for completions: slow, 500, drop, half, end. Not SGLang's."""
        self.faults = list(body["faults"])


def files_of(folder):
    return sorted(Path(folder).glob("*.safetensors"))


def refuse(message):
    raise web.HTTPBadRequest(text=json.dumps({"success": False, "message": message}), content_type="application/json")


@web.middleware
async def only_with_the_key(request, handler):
    key = request.app["double"].arguments.api_key
    if key is not None and request.path != "/health" and request.headers.get("Authorization") != f"Bearer {key}":
        return web.json_response({"error": "Unauthorized"}, status=401)
    return await handler(request)


async def handle(request):
    double = request.app["double"]
    method = getattr(double, request.match_info["method"], None)
    if method is None:
        raise web.HTTPNotFound
    fault = double.faults.pop(0) if method == double.generate and double.faults else None
    if fault == "500":
        return web.json_response({"error": {"message": "out of memory"}}, status=500)
    if fault == "drop":
        request.transport.abort()
        return web.Response()
    if fault == "end":
        os._exit(3)
    if fault == "slow":
        await asyncio.sleep(30)
    found = await method(await request.json() if request.can_read_body else {})
    answer = found if isinstance(found, web.Response) else web.json_response(found)
    if fault == "half":
        broken = web.StreamResponse()
        broken.content_length = len(answer.body)
        await broken.prepare(request)
        await broken.write(answer.body[: len(answer.body) // 2])
        request.transport.abort()
        return broken
    return answer


def run(arguments):
    async def main():
        double = Double(arguments)
        await double.engine.start()
        app = web.Application(middlewares=[only_with_the_key], client_max_size=2**30)
        app["double"] = double
        app.router.add_route("*", "/{method}", handle)
        runner = web.AppRunner(app, shutdown_timeout=0.5)
        await runner.setup()
        await web.TCPSite(runner, arguments.host, arguments.port).start()
        await asyncio.Event().wait()

    asyncio.run(main())
