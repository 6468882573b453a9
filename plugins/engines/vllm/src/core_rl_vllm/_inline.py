"""vLLM as an engine of this process. Its core, and its workers, are processes that vLLM starts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from core_rl.errors import PluginError, RunError
from core_rl.serving.options import check_names
from core_rl.serving.replica import ServerLostError
from core_rl_vllm._replica import VllmReplica
from core_rl_vllm._sampling import completion, sampling_params, scoring_params
from core_rl_vllm.arguments import ADAPTER

if TYPE_CHECKING:
    from core_rl.roles.rollout import Completion, GenerateRequest, ScoreRequest
    from core_rl_vllm.config import VllmConfig


class VllmInline(VllmReplica):
    """A `core_rl.serving.replica.Replica` without a server."""

    name = "vLLM in this process"

    def __init__(self, options: VllmConfig, *, arguments: Mapping[str, Any]) -> None:
        self._options = options
        self._arguments = dict(arguments)
        self._engine: Any = None
        self._adapter: Any = None

    async def start(self) -> None:
        """Raises `PluginError` when vLLM is not installed here."""
        os.environ.update({"VLLM_NO_USAGE_STATS": "1", **self._options.env})
        try:
            import vllm
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "vllm":
                raise
            message = (
                "rollout_engine: vllm is not installed here: pip install 'core-rl[vllm]', or name an environment that has it: "
                "rollout_engine.python"
            )
            raise PluginError(message) from error
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        check_names(self._arguments, AsyncEngineArgs.__dataclass_fields__, f"vLLM {vllm.__version__}")
        self._engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**self._arguments))
        self.workers = self._engine.vllm_config.parallel_config.world_size_across_dp
        if self._options.lora_adapter is not None:
            from vllm.lora.request import LoRARequest

            self._adapter = LoRARequest(ADAPTER, 1, self._options.lora_adapter)

    async def health(self) -> None:
        from vllm.v1.engine.exceptions import EngineDeadError

        try:
            await self._engine.check_health()
        except EngineDeadError as error:
            message = f"{self.name}: {error}"
            raise ServerLostError(message) from error

    async def recover(self) -> None:
        message = "vLLM's engine in this process has died; the run can go on from its last checkpoint: --resume"
        raise RunError(message)

    async def generate(self, request: GenerateRequest) -> list[Completion]:
        output = await self._last(request.id, request.prompt_ids, sampling_params(request, **self.facts))
        return [completion(_choice(one)) for one in sorted(output.outputs, key=lambda one: one.index)]

    async def prompt_logprobs(self, request: ScoreRequest) -> Sequence[Mapping[Any, Any] | None]:
        output = await self._last(request.id, request.tokens, scoring_params(request))
        return [row and {token: {"logprob": entry.logprob} for token, entry in row.items()} for row in output.prompt_logprobs]

    async def _last(self, request_id: str, tokens: Any, params: dict[str, Any]) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind
        from vllm.v1.engine.exceptions import EngineDeadError

        wanted = SamplingParams(**params, output_kind=RequestOutputKind.FINAL_ONLY, detokenize=bool(params.get("stop")))
        output = None
        try:
            prompt = {"prompt_token_ids": list(tokens)}
            async for each in self._engine.generate(prompt, wanted, request_id, lora_request=self._adapter):
                output = each
        except EngineDeadError as error:
            message = f"{self.name}: {error}"
            raise ServerLostError(message) from error
        return output

    async def abort(self, request_id: str) -> None:
        await self._engine.abort(request_id)

    async def call_workers(self, method: str, *args: Any) -> list[Any]:
        results: list[Any] = await self._engine.collective_rpc(method, args=args)
        return results

    async def stop_decoding(self, mode: str) -> None:
        await self._engine.pause_generation(mode=mode)

    async def go_on(self) -> None:
        await self._engine.resume_generation()

    async def forget_prefixes(self, *, running: bool) -> bool:
        return bool(await self._engine.reset_prefix_cache(reset_running_requests=running))

    async def label(self) -> str:
        return str(await self._engine.get_weight_version())

    async def set_label(self, label: str) -> None:
        await self._engine.update_weight_version(label)

    async def sleep(self) -> None:
        await self._engine.sleep(level=1)

    async def wake(self) -> None:
        await self._engine.wake_up()

    async def close(self) -> None:
        if self._engine is not None:
            self._engine.shutdown()
            self._engine = None


def _choice(output: Any) -> dict[str, Any]:
    tokens = list(output.token_ids)
    logprobs = [row[token].logprob for token, row in zip(tokens, output.logprobs or (), strict=True)]
    versions = [{"version": span.version, "start": span.start, "end": span.end} for span in output.weight_versions or ()]
    return {
        "token_ids": tokens,
        "logprobs": logprobs,
        "finish_reason": output.finish_reason,
        "weight_versions": versions,
    }
