"""Mistakes in a run file that only several keys together make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.errors import Problem
from core_rl_rejections.config import (
    MisConfig,
    OpsmConfig,
    OpsmLossConfig,
    OutlierVetoConfig,
    RatioBandConfig,
    SeqMaskTisConfig,
    TisConfig,
)

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile

_WEIGHTS = (TisConfig, MisConfig, SeqMaskTisConfig)
_COMPARES = (*_WEIGHTS, RatioBandConfig, OutlierVetoConfig, OpsmConfig)


def check(config: RunFile) -> list[Problem]:
    """Weights that count twice, and comparisons of a policy with itself."""
    algorithm = config.algorithm.options
    if not isinstance(algorithm, AlgorithmConfig):
        return []
    found = (*_twice(algorithm), *_with_itself(algorithm), *_opsm(algorithm))
    return [Problem("", f"algorithm.{path}", message) for path, message in found]


def _twice(algorithm: AlgorithmConfig) -> Iterator[tuple[str, str]]:
    weighing = [(index, one) for index, one in enumerate(algorithm.rejections) if _weighs(one.options)]
    for index, one in weighing[1:]:
        first = weighing[0][1].name
        yield (
            f"rejections.{index}",
            f"{first} weighs by pi_old/mu already, and {one.name} would once more: leave one of the two out",
        )


def _with_itself(algorithm: AlgorithmConfig) -> Iterator[tuple[str, str]]:
    if algorithm.proximal != "rollout":
        return
    for index, one in enumerate(algorithm.rejections):
        if isinstance(one.options, _COMPARES):
            message = f"{one.name} compares pi_old with mu, and proximal: rollout makes the two one: take proximal: recompute"
            yield f"rejections.{index}", message


def _opsm(algorithm: AlgorithmConfig) -> Iterator[tuple[str, str]]:
    options = algorithm.loss.options
    if isinstance(options, OpsmLossConfig) and options.against == "old" and algorithm.epochs * algorithm.minibatches == 1:
        message = "in a batch that is one optimizer step the policy is the old one, and nothing is held back: take rollout"
        yield "loss.against", message


def _weighs(options: object) -> bool:
    return isinstance(options, _WEIGHTS) or (isinstance(options, RatioBandConfig) and options.action == "clamp")
