"""What the stages of ZeRO have in common for the engine: weights made whole, float32 masters and optimizer states by parameter, steps.

Every method that gives or takes a whole tensor is called on all ranks for the same parameters in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import torch

if TYPE_CHECKING:
    from core_rl.train.config import OptimizerConfig

Parameter = torch.nn.Parameter


class Shards(Protocol):
    """Stage 0 is `core_rl_deepspeed._stage_0`, and so on."""

    def whole(self, params: Sequence[Parameter]) -> AbstractContextManager[Any]:
        """Inside, every rank has all of these weights, in the precision of the model."""
        ...

    def piece(self, param: Parameter) -> torch.Tensor:
        """What this rank keeps of a weight in the precision of the model: its `data` may be exchanged between two passes."""
        ...

    def cut(self, param: Parameter, value: torch.Tensor) -> torch.Tensor:
        """The piece that this rank keeps of a whole value."""
        ...

    def settle(self) -> None:
        """Nothing but the pieces holds weights now: what is computed next is of the pieces as they are."""
        ...

    def master(self, param: Parameter) -> torch.Tensor:
        """The whole float32 weight, on every rank."""
        ...

    def set_master(self, param: Parameter, value: torch.Tensor) -> None: ...

    def state(self, param: Parameter, key: str) -> torch.Tensor:
        """A whole tensor of the optimizer's state, on every rank."""
        ...

    def set_state(self, param: Parameter, key: str, value: torch.Tensor) -> None: ...

    def begin_state(self, steps: int) -> None:
        """A state as after so many steps, with zeros for tensors, which `set_state` is to fill."""
        ...

    def publish(self) -> None:
        """The model follows its masters."""
        ...

    def step(self, lr: float) -> tuple[float, bool]:
        """(norm of the gradient before clipping, whether the step was taken). A gradient that is not finite is dropped."""
        ...

    def tensors(self) -> Iterable[torch.Tensor]:
        """All that lies on the device for good, views and all."""
        ...


def state_keys(config: OptimizerConfig) -> tuple[str, ...]:
    """The tensors that the optimizer keeps for every weight."""
    if config.optimizer == "adamw":
        return ("exp_avg", "exp_avg_sq")
    return ("momentum_buffer",) if config.momentum else ()


def fresh_state(config: OptimizerConfig, like: torch.Tensor, steps: int) -> dict[str, torch.Tensor]:
    """As torch's fused optimizers make it of a weight."""
    state = {key: torch.zeros_like(like) for key in state_keys(config)}
    if config.optimizer == "adamw":
        state["step"] = torch.tensor(float(steps), device=like.device)
    return {key: value.detach() for key, value in state.items()}


def set_learning_rate(optimizer: Any, lr: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr


def step_engine(engine: Any, lr: float) -> tuple[float, bool]:
    """A step of a ZeRO optimizer, which clips, and drops what is not finite, by itself."""
    set_learning_rate(engine.optimizer, lr)
    engine.step()
    return float(engine.get_global_grad_norm()), not engine.optimizer.overflow


def states_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [value for each in optimizer.state.values() for value in each.values() if isinstance(value, torch.Tensor)]
