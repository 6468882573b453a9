"""A model in shards: loaded by rank 0, cut layer by layer, and put together again one tensor at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import torch
import torch.distributed as dist
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor

from core_rl.errors import UserError
from core_rl.hf.packed.module import NAME, Inside

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from core_rl.hf.spec import ModelSpec
    from core_rl_fsdp.config import FsdpConfig

Build = Callable[["ModelSpec"], Any]


def build_on_rank_0(build: Build, spec: ModelSpec) -> Any:
    """The model: with its weights on rank 0, on the meta device on every other."""
    if dist.get_rank() == 0:
        return build(spec)
    with torch.device("meta"):
        return build(attrs.evolve(spec, init="random"))


def shard(
    model: Any,
    whole: dict[str, torch.Tensor],
    *,
    spec: ModelSpec,
    options: FsdpConfig,
    mesh: DeviceMesh,
    device: torch.device,
) -> Inside:
    """Every wrapped layer and what is left of the model in shards over the mesh; `whole` is what rank 0 has of its weights, before
    anything was cut, and everyone's afterwards.
    """
    inside = Inside(model)
    policy: dict[str, Any] = {
        "mesh": mesh,
        "reshard_after_forward": options.reshard_after_forward,
        "mp_policy": MixedPrecisionPolicy(
            param_dtype=None if spec.dtype == "float32" else getattr(torch, spec.dtype), reduce_dtype=torch.float32
        ),
        "offload_policy": CPUOffloadPolicy(pin_memory=device.type == "cuda") if options.cpu_offload else OffloadPolicy(),
    }
    for layer in _layers(model, options.wrap):
        fully_shard(layer, **policy)
    fully_shard(inside, **policy)
    home = torch.device("cpu") if options.cpu_offload else device
    if dist.get_rank() == 0:
        inside.to(home)
    else:
        inside.to_empty(device=home)
        model.tie_weights()
    _spread(inside, whole, device)
    return inside


def reshard(inside: Inside) -> None:
    """Free what a forward pass without a backward pass has left gathered: it would be stale after the next step."""
    for module in inside.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


def compile_layers(model: Any, names: Sequence[str]) -> None:
    """Attention over a packed row stays as it is: it follows the layout of each micro-batch."""
    for layer in _layers(model, names):
        layer.compile(dynamic=True)


def _layers(model: Any, names: Sequence[str]) -> list[torch.nn.Module]:
    wanted = set(names or model._no_split_modules or ())  # noqa: SLF001 - transformers has no public name for it
    found = [module for module in reversed(list(model.modules())) if type(module).__name__ in wanted]  # inner ones first
    if names and not found:
        known = sorted({type(module).__name__ for module in model.modules()})
        message = f"train_engine.wrap: the model has no layer of {list(names)}; its modules are {known}"
        raise UserError(message)
    return found


def tensors_of_rank_0(model: Any) -> dict[str, torch.Tensor]:
    """Parameters and buffers by name, also those that are not saved; empty elsewhere."""
    if dist.get_rank() != 0:
        return {}
    named = [*model.named_parameters(), *model.named_buffers()]
    return {f"{NAME}.{name}": tensor.detach() for name, tensor in named}


@torch.no_grad()
def _spread(inside: Inside, whole: dict[str, torch.Tensor], device: torch.device) -> None:
    """One tensor at a time: rank 0 sends it, and every rank keeps its part."""
    for name, tensor in [*inside.named_parameters(), *inside.named_buffers()]:
        full = whole.pop(name).to(device) if whole else torch.empty(tensor.shape, dtype=tensor.dtype, device=device)
        dist.broadcast(full, 0)
        own = full
        if isinstance(tensor, DTensor):
            own = local_part(full, tensor)
        local(tensor).copy_(own)


def local_part(full: torch.Tensor, like: DTensor) -> torch.Tensor:
    """This rank's part of a tensor that every rank has: cut by the innermost dimension of the mesh first, as FSDP cuts what is cut already."""
    mesh, part = like.device_mesh, full
    for index in reversed(range(mesh.ndim)):
        placement: Any = like.placements[index]
        if not placement.is_replicate():
            parts = part.chunk(mesh.size(index), placement.dim)
            rank = mesh.get_local_rank(index)
            part = parts[rank] if rank < len(parts) else part.narrow(placement.dim, 0, 0)
    return part


def local(tensor: torch.Tensor) -> torch.Tensor:
    """What this rank has of it, sharing its memory."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole_tensor(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Gathered on every rank."""
    found = tensor.detach()
    if not isinstance(found, DTensor):
        return found
    moved: Any = found.to(device)
    whole: torch.Tensor = moved.full_tensor()
    return whole


def named_whole(inside: Inside, device: torch.device, dtype: torch.dtype) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters and saved buffers under their Hugging Face names, a tied one once, adapters merged; gathered one at a time."""
    from core_rl.hf.packed.weights import hf_names

    model = getattr(inside, NAME)
    for name, tensor, adapter in hf_names(model):
        value = whole_tensor(tensor, device)
        if adapter is not None:
            up, down = (whole_tensor(factor, device) for factor in (adapter.up, adapter.down))
            value = value + adapter.scaling * (up.float() @ down.float())
        yield name, value.to(dtype) if value.is_floating_point() and isinstance(tensor, torch.nn.Parameter) else value
