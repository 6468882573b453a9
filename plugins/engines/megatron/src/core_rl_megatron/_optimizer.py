"""Megatron's optimizer over the gradients that its data-parallel wrapper has summed: norm of all ranks, clip, step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

if TYPE_CHECKING:
    from megatron.core.transformer.transformer_config import TransformerConfig

    from core_rl_megatron.config import MegatronConfig


def wrap(parts: Sequence[torch.nn.Module], config: TransformerConfig, options: MegatronConfig) -> list[DistributedDataParallel]:
    """Gradients in float32 buffers, summed over ranks once all micro-batches are done."""
    buffers = DistributedDataParallelConfig(
        grad_reduce_in_fp32=True, use_distributed_optimizer=options.shares_optimizer, average_in_collective=False
    )
    modules = [DistributedDataParallel(config, buffers, part) for part in parts]
    for module in modules:
        for buffer in (*module.buffers, *module.expert_parallel_buffers):
            _count_padding(buffer)
    return modules


def _count_padding(buffer: Any) -> None:
    """Padding between the buckets of a buffer is part of it.

    A checkpoint leaves it out and then looks for weights where they are with it: those behind a bucket that is padded (a tied
    embedding has one of its own) are saved shifted, without an error. Nobody looks behind the last bucket.
    """
    for bucket in buffer.buckets[:-1]:
        bucket.numel_unpadded = bucket.grad_data.numel()
    buffer.numel_unpadded = sum(bucket.numel_unpadded for bucket in buffer.buckets)


class Optimizer:
    """Float32 masters where the model is bfloat16. Weight decay is on matrices alone."""

    def __init__(self, modules: Sequence[DistributedDataParallel], options: MegatronConfig, dtype: torch.dtype) -> None:
        self.modules = modules
        self.weight_decay = options.weight_decay
        config = OptimizerConfig(
            optimizer="adam" if options.optimizer == "adamw" else "sgd",
            lr=options.lr,
            min_lr=options.lr,
            weight_decay=options.weight_decay,
            adam_beta1=options.betas[0],
            adam_beta2=options.betas[1],
            adam_eps=options.eps,
            sgd_momentum=options.momentum,
            clip_grad=0.0,  # `step` clips
            bf16=dtype == torch.bfloat16,
            params_dtype=dtype,
            use_distributed_optimizer=options.shares_optimizer,
        )
        self.megatron = get_megatron_optimizer(config, list(modules))
        for part in self.members():
            part.init_state_fn = part.init_state_fn or _empty_momentum

    def members(self) -> Iterator[Any]:
        """One of the dense weights and one of the experts', as far as this rank has them."""
        yield from (part for part in self.megatron.chained_optimizers if part.optimizer is not None)

    def tensors(self) -> list[torch.Tensor]:
        """Masters and states."""
        states = (value for part in self.members() for state in part.optimizer.state.values() for value in state.values())
        masters = (p.data for part in self.members() for p in part.get_parameters())
        return [*masters, *(value for value in states if torch.is_tensor(value) and value.ndim)]

    def gradients(self) -> list[torch.Tensor]:
        """The buffers of the wrapper. Gradients of masters, which are copies, are dropped."""
        self.megatron.zero_grad()
        buffers = (buffer for module in self.modules for buffer in (*module.buffers, *module.expert_parallel_buffers))
        return [buffer.grad_data for buffer in buffers]

    def zero_grad(self) -> None:
        for module in self.modules:
            module.zero_grad_buffer()
        self.megatron.zero_grad()

    def gradient_norm(self) -> float:
        """Of all gradients together, each counted once; the same on every rank."""
        self.megatron.prepare_grads()
        return float(self.megatron.get_grad_norm())

    def step(self, lr: float, norm: float, max_norm: float | None) -> None:
        """After `gradient_norm`."""
        if max_norm is not None and norm > max_norm:
            grads = [p.grad for part in self.members() for p in part.get_parameters() if p.grad is not None]
            torch._foreach_mul_(grads, max_norm / norm)
        for group in self.megatron.param_groups:
            group["lr"] = lr
            group["weight_decay"] = (
                self.weight_decay * group["wd_mult"]
            )  # 0 for vectors; megatron leaves it to its own scheduler
        self.megatron.step_with_ready_grads()


def _empty_momentum(optimizer: torch.optim.Optimizer, config: Any = None) -> None:
    """What a checkpoint of sgd is loaded into; megatron has such a function for adam alone."""
    del config
    for group in optimizer.param_groups:
        for parameter in group["params"] if group["momentum"] else ():
            optimizer.state[parameter].setdefault("momentum_buffer", torch.zeros_like(parameter.data))
