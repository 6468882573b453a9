"""Stage 3: every rank has a part of every weight, of its float32 master and of the optimizer's state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.distributed as dist

from core_rl.train.config import OptimizerConfig
from core_rl_deepspeed._backend import backend
from core_rl_deepspeed._shards import Parameter, fresh_state, states_of, step_engine


class Partitions:
    """`core_rl_deepspeed._shards.Shards` of stage 3; without an optimizer it only makes weights whole."""

    def __init__(self, engine: Any, config: OptimizerConfig) -> None:
        self._engine = engine
        self._config = config

    def whole(self, params: Sequence[Parameter]) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = backend().zero.GatheredParameters(list(params))
        return context

    def piece(self, param: Parameter) -> torch.Tensor:
        piece: torch.Tensor = param.ds_tensor  # type: ignore[attr-defined]
        return piece

    def cut(self, param: Parameter, value: torch.Tensor) -> torch.Tensor:
        piece = self.piece(param)
        return _part(value.to(piece.dtype), piece.numel()).view_as(piece)

    def settle(self) -> None:
        self._engine.empty_partition_cache()

    def master(self, param: Parameter) -> torch.Tensor:
        value: torch.Tensor = backend().utils.safe_get_full_fp32_param(param)
        return value

    def set_master(self, param: Parameter, value: torch.Tensor) -> None:
        backend().utils.safe_set_local_fp32_param(param, _part(value.float(), self.piece(param).numel()))

    def state(self, param: Parameter, key: str) -> torch.Tensor:
        value: torch.Tensor = backend().utils.safe_get_full_optimizer_state(param, key)
        return value

    def set_state(self, param: Parameter, key: str, value: torch.Tensor) -> None:
        backend().utils.safe_set_local_optimizer_state(param, _part(value.float(), self.piece(param).numel()), key)

    def begin_state(self, steps: int) -> None:
        zero = self._engine.optimizer
        for flat in zero.fp32_partitioned_groups_flat:
            zero.optimizer.state[flat] = fresh_state(self._config, flat, steps)

    def publish(self) -> None:
        zero = self._engine.optimizer
        self.settle()
        for group in range(len(zero.fp16_groups)):
            zero._reassign_or_swap_out_partitioned_parameters(group)  # noqa: SLF001 - the end of its own step

    def step(self, lr: float) -> tuple[float, bool]:
        return step_engine(self._engine, lr)

    def tensors(self) -> Iterable[torch.Tensor]:
        zero = self._engine.optimizer
        pieces = [self.piece(param) for param in self._engine.module.parameters()]
        if not hasattr(zero, "fp32_partitioned_groups_flat"):  # without an optimizer
            return pieces
        buckets = [bucket.buffer for bucket in zero.ipg_buckets.values() if bucket.buffer is not None]
        masters = zero.fp32_partitioned_groups_flat
        return [*pieces, *buckets, zero.grad_partitions_flat_buffer, *masters, *states_of(zero.optimizer)]


def _part(value: torch.Tensor, count: int) -> torch.Tensor:
    """This rank's `count` elements; zeros behind the end of the value, since all parts are equally long."""
    own = value.flatten()[count * dist.get_rank() :][:count]
    return torch.nn.functional.pad(own, (0, count - own.numel()))
