"""A pool whose servers load the model of a run from a folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from core_rl.hf.folder import ModelFolder, end_ids_of
from core_rl.hf.load import context_length
from core_rl.serving.pool import PoolEngine

if TYPE_CHECKING:
    from core_rl.roles.rollout import RolloutContext
    from core_rl.serving.config import PoolConfig
    from core_rl.serving.replica import Replica


class ModelPool(PoolEngine, ABC):
    """A `core_rl.roles.rollout.RolloutEngine`. The folder is made, where there is none, with the first `start`."""

    def __init__(self, options: PoolConfig, context: RolloutContext) -> None:
        super().__init__((), options)
        self.context = context
        self._folder: ModelFolder | None = None

    @abstractmethod
    def replicas(self, folder: str, end_ids: tuple[int, ...], longest: int) -> Sequence[Replica]:
        """Servers of the model in this folder, which ends a sequence with these tokens and has room for so many."""

    async def start(self) -> None:
        model = self.context.model
        self._folder = ModelFolder(model, seed=self.context.seed)
        self.add(self.replicas(self._folder.path, end_ids_of(self._folder.path, model), context_length(model)))
        await super().start()

    async def close(self) -> None:
        await super().close()
        if self._folder is not None:
            self._folder.close()
