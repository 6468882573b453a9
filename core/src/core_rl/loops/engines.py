"""The engines of a run, built by its launcher: policy, critic, sampler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.roles.rollout import RolloutContext
from core_rl.roles.train import TrainContext

if TYPE_CHECKING:
    from core_rl.config.algorithm import AlgorithmConfig, CriticConfig
    from core_rl.config.run_file import RunFile
    from core_rl.config.selection import Selection
    from core_rl.roles.parts import Launcher
    from core_rl.roles.rollout import RolloutEngine
    from core_rl.roles.train import TrainEngine


def policy_engine(file: RunFile, algorithm: AlgorithmConfig, launcher: Launcher, *, reference: bool) -> TrainEngine:
    critic = algorithm.critic
    warmup = critic.warmup_steps if critic else 0
    context = TrainContext(
        model=file.model,
        seed=file.run.seed,
        total_steps=max(1, file.run.steps - warmup) * algorithm.epochs * algorithm.minibatches,
        temperature=file.sampling.temperature or 1.0,
        reference=reference,
        heads="both" if critic and critic.shared else "policy",
    )
    return train_engine(file.train_engine, launcher, context)


def critic_engine(file: RunFile, algorithm: AlgorithmConfig, critic: CriticConfig, launcher: Launcher) -> TrainEngine:
    """A model of its own with a value head. Its seed differs from the policy's, so that a random one is another model."""
    context = TrainContext(
        model=critic.model or file.model,
        seed=file.run.seed + 1,
        total_steps=file.run.steps * algorithm.epochs * algorithm.minibatches,
        heads="value",
    )
    return train_engine(critic.train_engine or file.train_engine, launcher, context)


def train_engine(selection: Selection, launcher: Launcher, context: TrainContext) -> TrainEngine:
    assert selection.component is not None
    return launcher.train_engine(selection.component, selection.options, context)


def rollout_engine(file: RunFile, launcher: Launcher, train: TrainEngine) -> RolloutEngine:
    context = RolloutContext(model=file.model, seed=file.run.seed, train_engine=train)
    assert file.rollout_engine.component is not None
    return launcher.rollout_engine(file.rollout_engine.component, file.rollout_engine.options, context)
