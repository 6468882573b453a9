"""What a run needs to go on, in megatron's distributed form: it loads on other numbers of ranks and in other layouts.

    weights/     model and optimizer, of all ranks
    reference/   the reference policy, once it is no longer the initial one
    state.pt     steps and random numbers

Some things of megatron-core 0.16 are mended here. Its writer forks processes, which a worker may not have (and which CUDA and threads
forbid): torch's own writer takes its place. With torch's AdamW, its distributed optimizer cannot be asked for its state before the
first step, stumbles over `step`, which it does not store for each weight (KeyError), and after loading gives ONE tensor of steps to
all weights, which then counts each of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from megatron.core import dist_checkpointing
from megatron.core.dist_checkpointing.core import CheckpointingException
from megatron.core.dist_checkpointing.strategies import torch as strategies
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer

from core_rl.errors import CheckpointError

if TYPE_CHECKING:
    from core_rl_megatron._model import PolicyModel
    from core_rl_megatron._optimizer import Optimizer

_METADATA = {
    "distrib_optim_sharding_type": "fully_reshardable",  # the one that works with torch's optimizer, and for any layout
    "chained_optim_avoid_prefix": True,  # with experts and without they are found under the same names
}


class _Writer(strategies.TorchDistSaveShardedStrategy):  # type: ignore[misc] # megatron carries no types
    """Megatron's format, written in this process."""

    def save(self, sharded_state_dict: Any, checkpoint_dir: str) -> None:
        from torch.distributed.checkpoint import filesystem, state_dict_saver

        renamed, _, _ = strategies._replace_state_dict_keys_with_sharded_keys(sharded_state_dict, True)  # noqa: SLF001
        state_dict_saver.save(
            strategies.mcore_to_pyt_state_dict(renamed, is_loading=False),
            storage_writer=filesystem.FileSystemWriter(checkpoint_dir),
            planner=strategies.MCoreSavePlanner(dedup_replicated_tensors=False, flatten_state_dict=False),
        )


def save(path: Path, parts: Mapping[str, PolicyModel], optimizer: Optimizer | None) -> None:
    """`path` is made; every rank calls it."""
    if dist.get_rank() == 0:
        path.mkdir()
    dist.barrier()
    state = _model_state(parts)
    if optimizer is not None:
        for member in optimizer.members():
            _begin(member)
        state["optimizer"] = optimizer.megatron.sharded_state_dict(state, metadata=_metadata())
    dist_checkpointing.save(state, str(path), sharded_strategy=_Writer("torch_dist", 1))


def load(path: Path, parts: Mapping[str, PolicyModel], optimizer: Optimizer | None) -> None:
    """Raises `CheckpointError` for a checkpoint of another model, or one that is cut short."""
    state = _model_state(parts)
    if optimizer is not None:
        for member in optimizer.members():
            _begin(member)
            _keep_step(member)
        state["optimizer"] = optimizer.megatron.sharded_state_dict(state, is_loading=True, metadata=_metadata())
    try:
        loaded = dist_checkpointing.load(state, str(path))
    except (CheckpointingException, OSError, RuntimeError) as error:
        message = f"{path}: cannot be read, or is of another model or optimizer: {str(error).splitlines()[0]}"
        raise CheckpointError(message) from error
    for name, part in parts.items():
        missing = part.load_state_dict(loaded[name], strict=False).missing_keys
        assert all(key.endswith("_extra_state") for key in missing), missing
    if optimizer is not None:
        optimizer.megatron.load_state_dict(loaded["optimizer"])
        for member in optimizer.members():
            _own_steps(member)


def _metadata() -> dict[str, Any]:
    from megatron.core import parallel_state

    return {**_METADATA, "dp_cp_group": parallel_state.get_data_parallel_group(with_context_parallel=True)}


def _model_state(parts: Mapping[str, PolicyModel]) -> dict[str, Any]:
    return {name: part.sharded_state_dict(metadata=_metadata()) for name, part in parts.items()}


def _begin(member: Any) -> None:
    """The state of an optimizer that has not stepped yet."""
    inner = member.optimizer
    if inner.state:
        return
    member.init_state_fn(inner, member.config)
    for state in inner.state.values():
        if isinstance(inner, torch.optim.AdamW):
            state["step"] = torch.zeros(())


def _keep_step(member: Any) -> None:
    """The optimizer's own `step` where a checkpoint has none for each weight; the right one is set with its groups."""
    if not isinstance(member, DistributedOptimizer):
        return
    original: Callable[..., None] = type(member)._set_main_param_and_optimizer_states  # noqa: SLF001

    @functools.wraps(original)
    def with_step(model_param: torch.Tensor, tensors: Mapping[str, torch.Tensor]) -> None:
        group, order = member.model_param_group_index_map[model_param]
        known = member.optimizer.state[member.optimizer.param_groups[group]["params"][order]]
        steps = {"step": known["step"].clone()} if "step" in known and "step" not in tensors else {}
        original(member, model_param, {**tensors, **steps})

    member._set_main_param_and_optimizer_states = with_step  # noqa: SLF001


def _own_steps(member: Any) -> None:
    for state in member.optimizer.state.values():
        if isinstance(member.optimizer, torch.optim.AdamW):
            state["step"] = state.get("step", torch.zeros(())).clone()
