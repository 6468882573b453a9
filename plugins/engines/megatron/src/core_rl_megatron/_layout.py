"""How ranks share the model: sizes that fit, and megatron's process groups.

Megatron keeps its groups in module variables: one layout for all engines of a process.
"""

from __future__ import annotations

import datetime as dt
import math
from typing import TYPE_CHECKING

import attrs

from core_rl.errors import UserError
from core_rl.workers.process_group import TIMEOUT_S

if TYPE_CHECKING:
    from core_rl_megatron.config import MegatronConfig


@attrs.frozen(kw_only=True)
class Layout:
    """Sizes of the groups. Experts are whole on a rank, whatever `tensor` is."""

    tensor: int = 1
    pipeline: int = 1
    virtual: int = 1
    expert: int = 1
    data: int = 1

    @classmethod
    def of(cls, options: MegatronConfig, world_size: int) -> Layout:
        """Raises `UserError` where `world_size` ranks cannot be shared out so."""
        _check_options(options)
        tensor, pipeline, expert = options.tensor_parallel, options.pipeline_parallel, options.expert_parallel
        if world_size % (tensor * pipeline):
            sizes = ", ".join(str(tensor * pipeline * k) for k in (1, 2, 3))
            message = (
                f"train_engine: tensor_parallel {tensor} * pipeline_parallel {pipeline} takes {tensor * pipeline} workers for one "
                f"copy of the model, and the launcher has {world_size}: take {sizes}, …"
            )
            raise UserError(message)
        if (world_size // pipeline) % expert:
            unit = pipeline * expert * tensor // math.gcd(expert, tensor)
            message = (
                f"train_engine.expert_parallel: {expert} does not divide the {world_size // pipeline} workers of a pipeline stage: "
                f"take {', '.join(str(unit * k) for k in (1, 2, 3))}, … workers"
            )
            raise UserError(message)
        data = world_size // (tensor * pipeline)
        return cls(tensor=tensor, pipeline=pipeline, virtual=options.virtual_pipeline, expert=expert, data=data)

    def enter(self) -> None:
        """Make the groups, or share those of an engine before, until as many have left.

        Raises:
            UserError: that engine has another layout.
        """
        from megatron.core import parallel_state

        if _entered and self != _entered[-1]:
            message = (
                f"train_engine: this process has a megatron engine with {_entered[-1].words()} and cannot have one with "
                f"{self.words()}: take the same sizes, or a launcher of its own for one of them"
            )
            raise UserError(message)
        _entered.append(self)
        if len(_entered) > 1:
            return
        parallel_state.initialize_model_parallel(
            tensor_model_parallel_size=self.tensor,
            pipeline_model_parallel_size=self.pipeline,
            virtual_pipeline_model_parallel_size=self.virtual if self.virtual > 1 else None,
            expert_model_parallel_size=self.expert,
            expert_tensor_parallel_size=1,
            distributed_timeout_minutes=int(dt.timedelta(seconds=TIMEOUT_S).total_seconds() // 60),
        )

    def leave(self) -> None:
        from megatron.core import parallel_state

        _entered.remove(self)
        if not _entered:
            parallel_state.destroy_model_parallel()

    def words(self) -> str:
        names = ("tensor", "pipeline", "virtual", "expert", "data")
        return ", ".join(f"{name} {getattr(self, name)}" for name in names)


_entered: list[Layout] = []


def _check_options(options: MegatronConfig) -> None:
    message = None
    if options.context_parallel > 1:
        message = (
            "train_engine.context_parallel: megatron-core splits sequences only with transformer_engine's attention on GPUs, which "
            "this engine does not use: take 1, with sequence_parallel and recompute for long sequences, or the engine fsdp"
        )
    elif options.sequence_parallel and options.tensor_parallel == 1:
        message = "train_engine.sequence_parallel: there are no tensor-parallel ranks to share tokens: set tensor_parallel too"
    elif options.virtual_pipeline > 1 and options.pipeline_parallel == 1:
        message = "train_engine.virtual_pipeline: it cuts the stages of a pipeline: set pipeline_parallel too"
    elif options.distributed_optimizer and options.optimizer != "adamw":
        message = (
            "train_engine.distributed_optimizer: megatron-core shares the state of adamw alone: set it to false for "
            f"{options.optimizer}"
        )
    if message is not None:
        raise UserError(message)
