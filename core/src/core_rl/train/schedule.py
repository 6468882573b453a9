"""The learning rate of every optimizer step. Torch-free."""

from __future__ import annotations

import math

from core_rl.train.config import OptimizerConfig


def warmup_steps(config: OptimizerConfig, total_steps: int) -> int:
    return math.ceil(config.warmup * total_steps) if config.warmup < 1 else int(config.warmup)


def learning_rate(config: OptimizerConfig, step: int, total_steps: int) -> float:
    """Of the optimizer step number `step`, from 0. It is never 0 in the warm-up: step k of w has (k + 1) / w of the peak."""
    warmup = warmup_steps(config, total_steps)
    if step < warmup:
        return config.lr * (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, total_steps - warmup))
    shape = {"constant": 1.0, "linear": 1.0 - progress, "cosine": 0.5 * (1.0 + math.cos(math.pi * progress))}[config.schedule]
    floor = 0.0 if config.schedule == "constant" else config.min_lr_ratio
    return config.lr * (floor + (1.0 - floor) * shape)
