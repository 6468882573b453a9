"""The rollout engine `sglang`: a pool of SGLang servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.hf.folder import ModelFolder, end_ids_of
from core_rl.hf.load import context_length
from core_rl.serving.pool import PoolEngine
from core_rl_sglang._server import SglangServer
from core_rl_sglang.arguments import server_arguments

if TYPE_CHECKING:
    from core_rl.roles.rollout import RolloutContext
    from core_rl_sglang.config import SglangConfig


class SglangRolloutEngine(PoolEngine):
    """A `core_rl.roles.rollout.RolloutEngine`. The model's folder is made, where there is none, with the first `start`."""

    def __init__(self, options: SglangConfig, context: RolloutContext) -> None:
        super().__init__((), options)
        self._sglang = options
        self._context = context
        self._folder: ModelFolder | None = None

    async def start(self) -> None:
        model = self._context.model
        self._folder = ModelFolder(model, seed=self._context.seed)
        longest = context_length(model)
        arguments = server_arguments(self._sglang, self._context, self._folder.path, longest)
        ends = end_ids_of(self._folder.path, model)
        urls = self._sglang.url or [None] * self._sglang.servers
        self.add(
            [
                SglangServer(self._sglang, url=url, number=number, arguments=arguments, end_ids=ends, context_length=longest)
                for number, url in enumerate(urls)
            ]
        )
        await super().start()

    async def close(self) -> None:
        await super().close()
        if self._folder is not None:
            self._folder.close()
