"""Stage 0: every rank has everything. DeepSpeed sums the gradients; masters, clipping and the refusal of a bad gradient are here.

DeepSpeed's own stage 0 adds micro-batches up in bfloat16 where the model is. Here a bfloat16 weight has a float32 master that the
optimizer steps; its gradient is bfloat16 within one micro-batch, and is added up in float32 over micro-batches and over ranks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from core_rl.train.config import OptimizerConfig
from core_rl.train.optimizer import build_optimizer, clip
from core_rl_deepspeed._shards import Parameter, fresh_state, set_learning_rate, states_of


class Replicas:
    """`core_rl_deepspeed._shards.Shards` of stage 0. `engine` is set once DeepSpeed has it."""

    engine: Any

    def __init__(self, params: Iterable[Parameter], config: OptimizerConfig) -> None:
        self._config = config
        self._masters: dict[Parameter, torch.Tensor] = {p: p if p.dtype == torch.float32 else _copy(p) for p in params}
        for param, master in self._masters.items():
            if master is not param:
                param.register_post_accumulate_grad_hook(self._collect)
        self.optimizer: Any = None
        if not self._masters:  # a frozen model
            return
        self.optimizer = build_optimizer(config, list(self._masters.values()))
        setattr(self.optimizer, "get_grads_for_reduction", lambda: (self._grads(), {}))  # noqa: B010 - DeepSpeed asks for it by name

    def whole(self, params: Sequence[Parameter]) -> AbstractContextManager[Any]:
        del params
        return nullcontext()

    def piece(self, param: Parameter) -> torch.Tensor:
        return param

    def cut(self, param: Parameter, value: torch.Tensor) -> torch.Tensor:
        return value.to(param.dtype)

    def settle(self) -> None:
        pass

    def master(self, param: Parameter) -> torch.Tensor:
        return self._masters[param].detach()

    def set_master(self, param: Parameter, value: torch.Tensor) -> None:
        self._masters[param].detach().copy_(value)

    def state(self, param: Parameter, key: str) -> torch.Tensor:
        value: torch.Tensor = self.optimizer.state[self._masters[param]][key]
        return value

    def set_state(self, param: Parameter, key: str, value: torch.Tensor) -> None:
        self.state(param, key).copy_(value)

    def begin_state(self, steps: int) -> None:
        for master in self._masters.values():
            self.optimizer.state[master] = fresh_state(self._config, master, steps)

    @torch.no_grad()
    def publish(self) -> None:
        for param, master in self._masters.items():
            if master is not param:
                param.copy_(master)

    def step(self, lr: float) -> tuple[float, bool]:
        norm = float(clip(list(self._masters.values()), self._config.max_grad_norm))
        taken = math.isfinite(norm)
        if taken:
            set_learning_rate(self.optimizer, lr)
            self.engine.step()
            self.publish()
        for param, master in self._masters.items():
            param.grad = master.grad = None
        return norm, taken

    def tensors(self) -> Iterable[torch.Tensor]:
        return [*self._masters.values(), *(states_of(self.optimizer) if self.optimizer else ())]

    def _collect(self, param: Any) -> None:
        master = self._masters[param]
        if master.grad is None:
            master.grad = torch.zeros_like(master)
        master.grad += param.grad
        param.grad = None

    def _grads(self) -> list[torch.Tensor]:
        """Of every master, also of those that this rank has no gradient of: all ranks sum the same."""
        for master in self._masters.values():
            if master.grad is None:
                master.grad = torch.zeros_like(master)
        return [master.grad for master in self._masters.values() if master.grad is not None]


def _copy(param: Parameter) -> torch.Tensor:
    return param.detach().float().requires_grad_()
