"""The rollout engine `vllm`: a pool of vLLM servers, or vLLM in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.serving.model_pool import ModelPool
from core_rl_vllm._inline import VllmInline
from core_rl_vllm._server import VllmServer
from core_rl_vllm.arguments import engine_arguments

if TYPE_CHECKING:
    from core_rl.roles.rollout import RolloutContext
    from core_rl_vllm.config import VllmConfig


class VllmRolloutEngine(ModelPool):
    """A `core_rl.roles.rollout.RolloutEngine`."""

    def __init__(self, options: VllmConfig, context: RolloutContext) -> None:
        super().__init__(options, context)
        self._vllm = options

    def replicas(self, folder: str, end_ids: tuple[int, ...], longest: int) -> list[VllmServer | VllmInline]:
        options = self._vllm
        arguments = engine_arguments(options, self.context, folder)
        found: list[VllmServer | VllmInline]
        if not options.url and options.mode == "inline":
            found = [VllmInline(options, arguments=arguments)]
        else:
            urls = options.url or [None] * options.servers
            found = [VllmServer(options, url=url, arguments=arguments, number=number) for number, url in enumerate(urls)]
        for replica in found:
            replica.prepare(end_ids=end_ids, context_length=longest)
        return found
