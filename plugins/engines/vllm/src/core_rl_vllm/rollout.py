"""The rollout engine `vllm`: a pool of vLLM servers, or vLLM in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.hf.folder import ModelFolder, end_ids_of
from core_rl.hf.load import context_length
from core_rl.serving.pool import PoolEngine
from core_rl_vllm._inline import VllmInline
from core_rl_vllm._server import VllmServer
from core_rl_vllm.arguments import engine_arguments

if TYPE_CHECKING:
    from core_rl.roles.rollout import RolloutContext
    from core_rl_vllm.config import VllmConfig


class VllmRolloutEngine(PoolEngine):
    """A `core_rl.roles.rollout.RolloutEngine`. The model's folder is made, where there is none, with the first `start`."""

    def __init__(self, options: VllmConfig, context: RolloutContext) -> None:
        super().__init__((), options)
        self._vllm = options
        self._context = context
        self._folder: ModelFolder | None = None

    async def start(self) -> None:
        model = self._context.model
        self._folder = ModelFolder(model, seed=self._context.seed)
        arguments = engine_arguments(self._vllm, self._context, self._folder.path)
        ends = end_ids_of(self._folder.path, model)
        replicas = self._replicas(arguments)
        for replica in replicas:
            replica.prepare(end_ids=ends, context_length=context_length(model))
        self.add(replicas)
        await super().start()

    def _replicas(self, arguments: dict[str, object]) -> list[VllmServer | VllmInline]:
        options = self._vllm
        if options.url:
            return [VllmServer(options, url=url, arguments=arguments) for url in options.url]
        if options.mode == "inline":
            return [VllmInline(options, arguments=arguments)]
        return [VllmServer(options, url=None, arguments=arguments, number=number) for number in range(options.servers)]

    async def close(self) -> None:
        await super().close()
        if self._folder is not None:
            self._folder.close()
