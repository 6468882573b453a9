"""The launcher on Ray: train engines in actors, the rest in this process."""

from __future__ import annotations

import importlib.util
import itertools
from typing import TYPE_CHECKING, Any

from core_rl.errors import PluginError
from core_rl.plugins.build import build_component
from core_rl.workers.train_engine import RemoteTrainEngine, refuse_alone

if TYPE_CHECKING:
    from core_rl.component import Component
    from core_rl.roles.rollout import RolloutContext, RolloutEngine
    from core_rl.roles.train import TrainContext, TrainEngine
    from core_rl_ray.cluster import Cluster
    from core_rl_ray.config import RayLauncherConfig
    from core_rl_ray.group import RayGroup


class RayLauncher:
    """A `core_rl.roles.parts.Launcher`. All its train engines share one group of actors, which begins with the first `setup`."""

    def __init__(self, options: RayLauncherConfig) -> None:
        """Raises `PluginError` where Ray is not installed."""
        if importlib.util.find_spec("ray") is None:
            message = "launcher ray needs ray: pip install 'core-rl[ray]'"
            raise PluginError(message)
        self.options = options
        self._cluster: Cluster | None = None
        self._group: RayGroup | None = None
        self._numbers = itertools.count()

    def train_engine(self, component: Component, options: Any, context: TrainContext) -> TrainEngine:
        """Raises `UserError` for an engine of one process and several workers; at `setup` where the cluster says how many."""
        refuse_alone(component, self.options.workers or 1)
        return RemoteTrainEngine(lambda: self._begin(component), f"train-{next(self._numbers)}", component, options, context)

    def rollout_engine(self, component: Component, options: Any, context: RolloutContext) -> RolloutEngine:
        engine: RolloutEngine = build_component(component, options, context)
        return engine

    def close(self) -> None:
        if self._group is not None:
            self._group.close()
        if self._cluster is not None:
            self._cluster.leave()
        self._group, self._cluster = None, None

    def _begin(self, component: Component) -> RayGroup:
        from core_rl_ray.cluster import join
        from core_rl_ray.group import RayGroup
        from core_rl_ray.placement import Wish

        if self._cluster is None:
            self._cluster = join(self.options)
        wish = Wish.of(self.options, self._cluster)
        refuse_alone(component, wish.workers)
        if self._group is None:
            self._group = RayGroup(self._cluster, wish, env=self.options.env, wait_s=self.options.wait_s)
        return self._group
