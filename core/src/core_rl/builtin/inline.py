"""The launcher that starts nothing: engines are objects in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core_rl.plugins.build import build_component

if TYPE_CHECKING:
    from core_rl.component import Component
    from core_rl.roles.rollout import RolloutContext, RolloutEngine
    from core_rl.roles.train import TrainContext, TrainEngine


class Inline:
    """Builds the engines where it stands; they close themselves."""

    def train_engine(self, component: Component, options: Any, context: TrainContext) -> TrainEngine:
        engine: TrainEngine = build_component(component, options, context)
        return engine

    def rollout_engine(self, component: Component, options: Any, context: RolloutContext) -> RolloutEngine:
        engine: RolloutEngine = build_component(component, options, context)
        return engine

    def close(self) -> None:
        pass
