"""Coefficients that follow what they act on: the adaptive KL penalty and the adaptive entropy bonus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core_rl.config.algorithm import AlgorithmConfig
    from core_rl.objective import PolicyObjective

_KL_BOUND = 0.2


def adapted_kl_coef(coef: float, kl: float, *, target: float, sequences: int, horizon: float) -> float:
    """coef · (1 + clip(kl / target - 1, -0.2, 0.2) · sequences / horizon)  (Ziegler et al., 1909.08593, §2.2)."""
    error = min(max(kl / target - 1.0, -_KL_BOUND), _KL_BOUND)
    return coef * (1.0 + error * sequences / horizon)


def adapted_entropy_coef(coef: float, entropy: float, *, target: float, step: float) -> float:
    """coef + step below the target, else coef - step, never under 0 (Skywork-OR1, 2505.22312; TRL has a ceiling of 1 as well).

    The bonus acts while the mean entropy of the batch is at most the target. Where this differs from the paper: a step goes by the mean
    of the step before it, since its own is known only when its forward pass is over.
    """
    return max(0.0, coef + (step if entropy < target else -step))


def steer(objective: PolicyObjective, algorithm: AlgorithmConfig, metrics: Mapping[str, float], *, sequences: int) -> None:
    """After a step: the coefficients of the next one. A step that measured nothing changes nothing."""
    kl = algorithm.kl
    if kl.target is not None and (measured := metrics.get("kl/ref")) is not None:
        objective.kl_coef = adapted_kl_coef(
            objective.kl_coef, measured, target=kl.target, sequences=sequences, horizon=kl.horizon
        )
    if algorithm.entropy_target is not None and (measured := metrics.get("entropy/mean")) is not None:
        objective.entropy_coef = adapted_entropy_coef(
            objective.entropy_coef, measured, target=algorithm.entropy_target, step=algorithm.entropy_step
        )
        objective.entropy_acts = measured <= algorithm.entropy_target
