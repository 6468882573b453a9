"""A vLLM server, started here or running somewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from core_rl.errors import RunError, UserError
from core_rl.serving.replica import ServerLostError
from core_rl.serving.server import HttpServer
from core_rl_vllm._replica import VllmReplica
from core_rl_vllm._sampling import completion, sampling_params, scoring_params
from core_rl_vllm.arguments import ADAPTER, SERVED

if TYPE_CHECKING:
    from core_rl.roles.rollout import Completion, GenerateRequest, ScoreRequest
    from core_rl_vllm.config import VllmConfig

_ENVIRONMENT = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
"""vLLM has its routes for reinforcement learning in this mode alone."""


_PREFIX = "generate-tokens-"
"""What vLLM puts before the id of a request that comes by its route of tokens."""


class VllmServer(HttpServer, VllmReplica):
    """A `core_rl.serving.replica.Replica`, by HTTP."""

    kind = "vLLM"
    module = "core_rl_vllm.serve"
    environment = _ENVIRONMENT
    options: VllmConfig

    def __init__(self, options: VllmConfig, *, url: str | None, arguments: Mapping[str, Any], number: int = 0) -> None:
        super().__init__(options, url=url, number=number)
        self._arguments = arguments
        self._model = SERVED

    def arguments(self) -> Mapping[str, Any]:
        options = self.options
        own = {"host": options.host, "port": self.port, "served_model_name": [SERVED], "enable_scale_out": True}
        if options.api_key is not None:
            own["api_key"] = [options.api_key]
        if options.lora_adapter is not None:
            own["lora_modules"] = [f"{ADAPTER}={options.lora_adapter}"]
        return {**self._arguments, **own}

    async def start(self) -> None:
        """Raises `UserError` for a server at a URL that lacks what reinforcement learning needs."""
        await self.ready()
        try:
            answer = await self.client.get("/get_world_size")
            await self.call_workers("core_rl_fingerprint")
            models = await self.client.get("/v1/models")
        except (RunError, ServerLostError) as error:
            message = (
                f"rollout_engine.url: {self.name} lacks vLLM's routes for reinforcement learning or core-rl's worker extension ({error}). "
                "Start it with VLLM_SERVER_DEV_MODE=1 and --enable-scale-out --logprobs-mode processed_logprobs "
                "--worker-extension-cls core_rl_vllm.worker.Extension, in an environment that has core-rl-vllm"
            )
            raise UserError(message) from error
        self.workers = int(answer["world_size"])
        names = [model["id"] for model in models["data"]]
        self._model = ADAPTER if self.options.lora_adapter is not None else names[0]
        if self._model not in names:
            message = f"rollout_engine.lora_adapter: {self.name} serves {names}, and no adapter called {ADAPTER}"
            raise UserError(message)

    async def generate(self, request: GenerateRequest) -> list[Completion]:
        body = {
            "request_id": request.id,
            "model": self._model,
            "token_ids": list(request.prompt_ids),
            "sampling_params": sampling_params(request, **self.facts),
        }
        answer = await self.client.post("/inference/v1/generate", body)
        try:
            choices = sorted(answer["choices"], key=lambda choice: choice["index"])
            return [completion({**choice, "logprobs": _logprobs(choice)}) for choice in choices]
        except (KeyError, TypeError) as error:
            message = f"{self.name} answered in a form that is not vLLM's: {str(answer)[:200]}"
            raise ServerLostError(message) from error

    async def prompt_logprobs(self, request: ScoreRequest) -> Sequence[Mapping[Any, Any] | None]:
        body = {
            "request_id": request.id,
            "model": self._model,
            "token_ids": list(request.tokens),
            "sampling_params": scoring_params(request),
        }
        answer = await self.client.post("/inference/v1/generate", body)
        rows: Sequence[Mapping[Any, Any] | None] = answer["prompt_logprobs"]
        return rows

    async def abort(self, request_id: str) -> None:
        await self.client.post("/abort_requests", {"request_ids": [request_id, f"{_PREFIX}{request_id}"]})

    async def call_workers(self, method: str, *args: Any) -> list[Any]:
        """Raises `RunError` with the worker's words."""
        answer = await self.client.post("/collective_rpc", {"method": method, "args": list(args)})
        results: list[Any] = answer["results"]
        return results

    async def stop_decoding(self, mode: str) -> None:
        await self.client.post(f"/pause?mode={mode}")

    async def go_on(self) -> None:
        await self.client.post("/resume")

    async def forget_prefixes(self, *, running: bool) -> bool:
        answer = await self.client.post(f"/reset_prefix_cache?reset_running_requests={str(running).lower()}")
        return bool(answer["success"])

    async def label(self) -> str:
        return str((await self.client.get("/weight_info"))["weight_version"])

    async def set_label(self, label: str) -> None:
        await self.client.post("/update_weight_version", {"new_version": label})

    async def sleep(self) -> None:
        await self.client.post("/sleep?level=1")

    async def wake(self) -> None:
        await self.client.post("/wake_up")


def _logprobs(choice: Mapping[str, Any]) -> list[float]:
    return [entry["logprob"] for entry in (choice["logprobs"] or {}).get("content") or ()]
