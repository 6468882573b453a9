"""The rollout engine `sglang`: a pool of SGLang servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.serving.model_pool import ModelPool
from core_rl_sglang._server import SglangServer
from core_rl_sglang.arguments import server_arguments

if TYPE_CHECKING:
    from core_rl.roles.rollout import RolloutContext
    from core_rl_sglang.config import SglangConfig


class SglangRolloutEngine(ModelPool):
    """A `core_rl.roles.rollout.RolloutEngine`."""

    def __init__(self, options: SglangConfig, context: RolloutContext) -> None:
        super().__init__(options, context)
        self._sglang = options

    def replicas(self, folder: str, end_ids: tuple[int, ...], longest: int) -> list[SglangServer]:
        options = self._sglang
        arguments = server_arguments(options, self.context, folder, longest)
        return [
            SglangServer(options, url=url, number=number, arguments=arguments, end_ids=end_ids, context_length=longest)
            for number, url in enumerate(options.url or [None] * options.servers)
        ]
