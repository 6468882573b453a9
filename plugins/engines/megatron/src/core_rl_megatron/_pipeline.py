"""Micro-batches through the stages by megatron's schedules: one after the other, 1F1B, or interleaved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from megatron.core.distributed import finalize_model_grads
from megatron.core.pipeline_parallel import get_forward_backward_func

if TYPE_CHECKING:
    from core_rl_megatron._blocks import Block

Finish = Callable[[torch.Tensor, "Block"], torch.Tensor]
"""(hidden states of the last stage, their micro-batch) -> the scalar to go back from; called on the last stage alone."""


def run(modules: Sequence[torch.nn.Module], blocks: Sequence[Block], finish: Finish, *, backward: bool) -> None:
    """All micro-batches forward and, with `backward`, back; then the gradients of all ranks are summed."""

    def forward_step(iterator: Any, module: torch.nn.Module) -> tuple[torch.Tensor, Any]:
        block = next(iterator)
        return module(block.tokens, block.positions, None), partial(_finished, finish, block)

    iterators = [iter(blocks) for _ in modules]
    get_forward_backward_func()(
        forward_step_func=forward_step,
        data_iterator=iterators if len(modules) > 1 else iterators[0],
        model=list(modules),
        num_microbatches=len(blocks),
        seq_length=blocks[0].tokens.shape[1],  # of the first alone; stages tell each other the shapes of all
        micro_batch_size=blocks[0].tokens.shape[0],
        forward_only=not backward,
    )


def _finished(finish: Finish, block: Block, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
    """Megatron's triple: the loss, a count of tokens that it must not divide by (see `finalize`), and nothing to keep."""
    return finish(hidden, block), torch.zeros((), dtype=torch.int), {}


def finalize(modules: list[torch.nn.Module], num_tokens: Any = None, **options: Any) -> None:
    """Over data-parallel ranks; of norms over ranks that share tokens; of tied weights over first and last stage. No division."""
    del num_tokens
    finalize_model_grads(modules, None, **options)
