"""Mistakes in a run file that only several keys together make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.errors import Problem
from core_rl_reinforce.config import GdpoConfig, ReinforceLossConfig, RemaxConfig

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile


def check(config: RunFile) -> list[Problem]:
    """What the family's parts would leave unread, or could not have."""
    algorithm = config.algorithm.options
    if not isinstance(algorithm, AlgorithmConfig):
        return []
    found = [*_advantage(algorithm), *_loss(config, algorithm)]
    return [Problem("", f"algorithm.{path}", message) for path, message in found]


def _advantage(algorithm: AlgorithmConfig) -> Iterator[tuple[str, str]]:
    options = algorithm.advantage.options
    if isinstance(options, RemaxConfig) and algorithm.reward_norm is not None:
        yield "reward_norm", "remax compares rewards with that of a greedy completion, which is not normalised: set it to null"
    if not isinstance(options, GdpoConfig):
        return
    if algorithm.reward_norm is not None:
        yield "reward_norm", "gdpo reads the parts of the reward, which this does not change: set it to null"
    if algorithm.kl.coef > 0 and algorithm.kl.place == "reward":
        yield "kl.place", "gdpo reads the parts of the reward, which have no KL penalty in them: take loss or advantage"


def _loss(config: RunFile, algorithm: AlgorithmConfig) -> Iterator[tuple[str, str]]:
    losses = [("loss", algorithm.loss), *((f"extra_losses[{i}]", one) for i, one in enumerate(algorithm.extra_losses))]
    engine = config.rollout_engine
    for path, one in losses:
        if not isinstance(one.options, ReinforceLossConfig) or one.options.importance != "rollout":
            continue
        if engine.component is not None and "rollout_logprobs" not in engine.component.provides:
            yield f"{path}.importance", f"rollout needs rollout_logprobs, and rollout_engine: {engine.name} does not provide it"
