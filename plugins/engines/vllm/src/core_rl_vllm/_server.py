"""A vLLM server, started here or running somewhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core_rl.errors import RunError, UserError
from core_rl.ports import free_port
from core_rl.serving.http import Client
from core_rl.serving.process import ServerProcess, log_folder
from core_rl.serving.replica import ServerLostError
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


class VllmServer(VllmReplica):
    """A `core_rl.serving.replica.Replica`, by HTTP."""

    def __init__(self, options: VllmConfig, *, url: str | None, arguments: Mapping[str, Any], number: int = 0) -> None:
        self._options = options
        self._process: ServerProcess | None = None
        self._restarts = 0
        if url is None:
            port = free_port(options.host)
            url = f"http://{options.host}:{port}"
            self._process = self._own(arguments, port, number)
        self.name = f"vLLM at {url}"
        self._client = Client(url, api_key=options.api_key, timeout_s=options.request_timeout_s)
        self._model = SERVED

    def _own(self, arguments: Mapping[str, Any], port: int, number: int) -> ServerProcess:
        options = self._options
        own = {
            **arguments,
            "host": options.host,
            "port": port,
            "served_model_name": [SERVED],
            "enable_scale_out": True,
        }
        if options.api_key is not None:
            own["api_key"] = [options.api_key]
        if options.lora_adapter is not None:
            own["lora_modules"] = [f"{ADAPTER}={options.lora_adapter}"]
        folder = log_folder() if options.log_dir is None else Path(options.log_dir)
        return ServerProcess(
            name=f"vLLM at {options.host}:{port}",
            command=[options.python or sys.executable, "-m", "core_rl_vllm.serve", json.dumps(own)],
            environment={**_ENVIRONMENT, **options.env},
            log=folder / f"vllm-{number}.log",
        )

    async def start(self) -> None:
        """Raises `UserError` for a server at a URL that lacks what reinforcement learning needs."""
        if self._process is not None:
            await self._process.start(self.health, timeout_s=self._options.start_timeout_s)
        else:
            await self.health()
        try:
            answer = await self._client.get("/get_world_size")
            await self.call_workers("core_rl_fingerprint")
            models = await self._client.get("/v1/models")
        except (RunError, ServerLostError) as error:
            message = (
                f"rollout_engine.url: {self.name} lacks vLLM's routes for reinforcement learning or core-rl's worker extension ({error}). "
                "Start it with VLLM_SERVER_DEV_MODE=1 and --enable-scale-out --logprobs-mode processed_logprobs "
                "--worker-extension-cls core_rl_vllm.worker.Extension, in an environment that has core-rl-vllm"
            )
            raise UserError(message) from error
        self.workers = int(answer["world_size"])
        names = [model["id"] for model in models["data"]]
        self._model = ADAPTER if self._options.lora_adapter is not None else names[0]
        if self._model not in names:
            message = f"rollout_engine.lora_adapter: {self.name} serves {names}, and no adapter called {ADAPTER}"
            raise UserError(message)

    async def health(self) -> None:
        await self._client.get("/health", timeout_s=max(10.0, self._options.health_every_s))

    async def recover(self) -> None:
        process = self._process
        if process is None or process.exit_code is None:
            return
        if self._restarts >= self._options.restarts:
            message = f"it has ended {self._restarts + 1} times{process.words()}"
            raise UserError(message)
        self._restarts += 1
        await self._client.close()
        await process.start(self.health, timeout_s=self._options.start_timeout_s)

    async def generate(self, request: GenerateRequest) -> list[Completion]:
        body = {
            "request_id": request.id,
            "model": self._model,
            "token_ids": list(request.prompt_ids),
            "sampling_params": sampling_params(request, **self.facts),
        }
        answer = await self._client.post("/inference/v1/generate", body)
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
        answer = await self._client.post("/inference/v1/generate", body)
        rows: Sequence[Mapping[Any, Any] | None] = answer["prompt_logprobs"]
        return rows

    async def abort(self, request_id: str) -> None:
        await self._client.post("/abort_requests", {"request_ids": [request_id, f"{_PREFIX}{request_id}"]})

    async def call_workers(self, method: str, *args: Any) -> list[Any]:
        """Raises `RunError` with the worker's words."""
        answer = await self._client.post("/collective_rpc", {"method": method, "args": list(args)})
        results: list[Any] = answer["results"]
        return results

    async def stop_decoding(self, mode: str) -> None:
        await self._client.post(f"/pause?mode={mode}")

    async def go_on(self) -> None:
        await self._client.post("/resume")

    async def forget_prefixes(self, *, running: bool) -> bool:
        answer = await self._client.post(f"/reset_prefix_cache?reset_running_requests={str(running).lower()}")
        return bool(answer["success"])

    async def label(self) -> str:
        return str((await self._client.get("/weight_info"))["weight_version"])

    async def set_label(self, label: str) -> None:
        await self._client.post("/update_weight_version", {"new_version": label})

    async def sleep(self) -> None:
        await self._client.post("/sleep?level=1")

    async def wake(self) -> None:
        await self._client.post("/wake_up")

    async def close(self) -> None:
        await self._client.close()
        if self._process is not None:
            await self._process.stop()


def _logprobs(choice: Mapping[str, Any]) -> list[float]:
    return [entry["logprob"] for entry in (choice["logprobs"] or {}).get("content") or ()]
