"""The launcher of one machine: train engines in worker processes, the rest in this one."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from core_rl.plugins.build import build_component
from core_rl.workers.train_engine import RemoteTrainEngine, refuse_alone

if TYPE_CHECKING:
    from core_rl.builtin.config import LocalLauncherConfig
    from core_rl.component import Component
    from core_rl.roles.rollout import RolloutContext, RolloutEngine
    from core_rl.roles.train import TrainContext, TrainEngine
    from core_rl.workers.local_group import LocalGroup


class LocalLauncher:
    """A `core_rl.roles.parts.Launcher`. All its train engines share one group of workers, which begins with the first `setup`."""

    def __init__(self, options: LocalLauncherConfig) -> None:
        self.options = options
        self._group: LocalGroup | None = None
        self._numbers = itertools.count()

    def train_engine(self, component: Component, options: Any, context: TrainContext) -> TrainEngine:
        """Raises `UserError` for an engine of one process and several workers."""
        refuse_alone(component, self._workers())
        return RemoteTrainEngine(self._begin, f"train-{next(self._numbers)}", component, options, context)

    def rollout_engine(self, component: Component, options: Any, context: RolloutContext) -> RolloutEngine:
        engine: RolloutEngine = build_component(component, options, context)
        return engine

    def close(self) -> None:
        if self._group is not None:
            self._group.close()

    def _workers(self) -> int:
        if self.options.workers is not None:
            return self.options.workers
        import torch

        return max(1, torch.cuda.device_count())

    def _begin(self) -> LocalGroup:
        if self._group is None:
            from core_rl.workers.local_group import LocalGroup

            self._group = LocalGroup(self._workers(), threads=self.options.threads, environment=self.options.env)
        return self._group
