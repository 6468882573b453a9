"""Stages 1 and 2: every rank has all weights, in flat buffers, and a part of the float32 masters and of the optimizer's state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from core_rl.train.config import OptimizerConfig
from core_rl_deepspeed._backend import backend
from core_rl_deepspeed._shards import Parameter, fresh_state, states_of, step_engine

if TYPE_CHECKING:
    import torch

_GRADIENTS_KEPT = "fp32_groups_gradients_flat"
"""Where DeepSpeed's optimizer for bfloat16 at stage 1 adds gradients up."""


class FlatShards:
    """`core_rl_deepspeed._shards.Shards` of stages 1 and 2."""

    def __init__(self, engine: Any, config: OptimizerConfig) -> None:
        self._engine = engine
        self._config = config

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
        value: torch.Tensor = backend().utils.safe_get_full_fp32_param(param)
        return value

    def set_master(self, param: Parameter, value: torch.Tensor) -> None:
        backend().utils.safe_set_full_fp32_param(param, value)

    def state(self, param: Parameter, key: str) -> torch.Tensor:
        mapping = param._hp_mapping  # type: ignore[attr-defined]  # noqa: SLF001 - None: no part of it is on this rank
        if mapping is not None and key not in mapping.optim_fragment:
            self._link_states()  # DeepSpeed does it after the step of its first group, when the others have no state yet
        value: torch.Tensor = backend().utils.safe_get_full_optimizer_state(param, key)
        return value

    def set_state(self, param: Parameter, key: str, value: torch.Tensor) -> None:
        backend().utils.safe_set_full_optimizer_state(param, value, key)

    def begin_state(self, steps: int) -> None:
        zero = self._engine.optimizer
        for flat in self._masters():
            zero.optimizer.state[flat] = fresh_state(self._config, flat, steps)
        self._link_states()

    def publish(self) -> None:
        self._engine.optimizer.update_lp_params()

    def step(self, lr: float) -> tuple[float, bool]:
        norm, taken = step_engine(self._engine, lr)
        if not taken:  # with an offloaded optimizer DeepSpeed would add the next gradients to the bad ones, for ever
            sums = getattr(self._engine.optimizer, "averaged_gradients", {})
            sums.update(dict.fromkeys(sums))
        return norm, taken

    def tensors(self) -> Iterable[torch.Tensor]:
        zero = self._engine.optimizer
        kept: list[torch.Tensor] = getattr(zero, _GRADIENTS_KEPT, [])
        return [*self._masters(), *kept, *states_of(zero.optimizer)]

    def _link_states(self) -> None:
        """Parameters find their part of the optimizer's state."""
        zero = self._engine.optimizer
        zero._hp_optimizer_states_linked = False  # noqa: SLF001 - else it does not look again
        zero._lazy_init_hp_params_optimizer_state()  # noqa: SLF001

    def _masters(self) -> list[torch.Tensor]:
        """One flat part for each of the optimizer's groups."""
        return [flat for group in self._engine.optimizer.optimizer.param_groups for flat in group["params"]]
