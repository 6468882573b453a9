"""What a run needs to go on, written by all ranks together and read by any number of them (torch.distributed.checkpoint).

.metadata, __R_*.distcp     shards of the weights, of the optimizer's states by weight, of the reference once it has moved
state-R.pt                  of every rank: its random numbers; of rank 0 also the step
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
import torch
import torch.distributed as dist
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.tensor import DTensor

from core_rl.errors import CheckpointError
from core_rl.train.checkpoint import load_state, random_state, set_random_state

States = Mapping[str, Mapping[str, torch.Tensor]]


@attrs.frozen(kw_only=True)
class Loaded:
    """What a checkpoint says beside tensors."""

    steps: int
    reference: bool


def save(
    path: Path,
    params: Mapping[str, torch.Tensor],
    states: States,
    *,
    steps: int,
    reference: Mapping[str, torch.Tensor] | None,
) -> None:
    tensors = _weights(params) | _named(states, params)
    if reference is not None:
        tensors |= {f"reference/{name}": _like(value, params[name]) for name, value in reference.items()}
    state_dict_saver.save(tensors, checkpoint_id=path)
    state = {"steps": steps, "random": random_state(), "reference": reference is not None, "trained": bool(states)}
    torch.save(state, path / f"state-{dist.get_rank()}.pt")
    dist.barrier()


def load(
    path: Path,
    params: Mapping[str, torch.Tensor],
    slots: Mapping[str, torch.Tensor],
    optimizer: torch.optim.Optimizer,
    *,
    reference: Mapping[str, torch.Tensor] | None,
) -> Loaded:
    """Into the tensors that are there. A rank that the checkpoint does not know takes rank 0's random numbers."""
    own = path / f"state-{dist.get_rank()}.pt"
    state = load_state(own if own.is_file() else path / "state-0.pt")
    tensors = _weights(params)
    if state["trained"]:
        _make_states(slots.values(), optimizer)
        tensors |= _named({name: optimizer.state[slot] for name, slot in slots.items()}, params)
    with_reference = reference is not None and state["reference"]
    copies = {name: _like(value, params[name]) for name, value in (reference or {}).items()} if with_reference else {}
    tensors |= {f"reference/{name}": value for name, value in copies.items()}
    try:
        _refuse_other_names(path, set(tensors), with_reference=with_reference)
        state_dict_loader.load(tensors, checkpoint_id=path)
    except CheckpointError:
        raise
    except (CheckpointException, OSError, KeyError, ValueError, RuntimeError) as error:
        first = next((line for line in str(error).splitlines() if "Error" in line), str(error).splitlines()[0])
        message = f"{path}: the checkpoint is cut short, or of another model or other adapters: {first}"
        raise CheckpointError(message) from error
    for name, value in copies.items():
        reference[name].copy_(value.to_local() if isinstance(value, DTensor) else value)  # type: ignore[index]
    if not state["trained"]:
        optimizer.state.clear()
    set_random_state(state["random"])
    return Loaded(steps=state["steps"], reference=with_reference)


def _refuse_other_names(path: Path, names: set[str], *, with_reference: bool) -> None:
    """torch reads what it is asked for, and would leave out the layers of a larger model without a word."""
    stored = set(FileSystemReader(path).read_metadata().state_dict_metadata)
    unread = set() if with_reference else {name for name in stored if name.startswith("reference/")}
    odd = sorted((stored ^ names) - unread)
    if odd:
        message = f"{path}: the checkpoint is of another model or other adapters: {odd[0]} is on one side only"
        raise CheckpointError(message)


def _weights(params: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    return {f"weights/{name}": p.detach() for name, p in params.items()}


def _named(states: States, params: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """What the optimizer keeps, by the weight's name; its counter of steps is everyone's."""
    return {
        f"optimizer/{name}/{key}": value if value.ndim == 0 else _like(value, params[name])
        for name, values in states.items()
        for key, value in values.items()
    }


def _make_states(slots: Iterable[torch.Tensor], optimizer: torch.optim.Optimizer) -> None:
    """A step of gradients of zero makes them; what it does to the weights is overwritten."""
    for slot in slots:
        slot.grad = torch.zeros_like(slot)
    optimizer.step()
    optimizer.zero_grad()


def _like(value: torch.Tensor, param: torch.Tensor) -> torch.Tensor:
    """A rank's part as the part of a whole."""
    if not isinstance(param, DTensor):
        return value
    return DTensor.from_local(
        value.to(param.to_local().device),
        param.device_mesh,
        param.placements,
        run_check=False,
        shape=param.shape,
        stride=param.stride(),
    )
