"""What a run needs to go on exactly, on any number of ranks and at any stage: whole tensors by parameter name.

weights-RR-NNN.safetensors     float32 masters, each written by one of the ranks
optimizer-RR-NNN.safetensors   the optimizer's state, `parameter|key`
reference-RR-NNN.safetensors   the reference policy, once it is no longer the initial one
state.pt                       step, and the random numbers of every rank

No rank ever holds more than one file. DeepSpeed's own checkpoints are of one number of ranks and one stage, and a program of its own
turns them into others; these need none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from core_rl.errors import CheckpointError
from core_rl.train.checkpoint import STATE, load_state, random_state, set_random_state

WEIGHTS, OPTIMIZER, REFERENCE = "weights", "optimizer", "reference"
_FILE_BYTES = 2 * 2**30


def write(tensors: Iterable[tuple[str, torch.Tensor]], folder: Path, kind: str, *, file_bytes: int = _FILE_BYTES) -> None:
    """A stream that all ranks draw together; each keeps and writes every tensor that is its turn."""
    from safetensors.torch import save_file

    rank, ranks = dist.get_rank(), dist.get_world_size()
    held: dict[str, torch.Tensor] = {}
    size = count = 0

    def flush() -> None:
        nonlocal size, count
        save_file(held, folder / f"{kind}-{rank:02d}-{count:03d}.safetensors")
        held.clear()
        size, count = 0, count + 1

    for index, (name, tensor) in enumerate(tensors):
        if index % ranks != rank:
            continue
        held[name] = tensor.detach().to("cpu", copy=True).contiguous()
        size += tensor.numel() * tensor.element_size()
        if size >= file_bytes:
            flush()
    if held:
        flush()


def write_state(steps: int, folder: Path) -> None:
    random: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(random, random_state())
    if dist.get_rank() == 0:
        torch.save({"steps": steps, "random": random}, folder / STATE)
    dist.barrier()


def read_state(folder: Path) -> int:
    """The step. A rank that the checkpoint does not know keeps its own random numbers."""
    state = load_state(folder / STATE)
    random = state["random"]
    if dist.get_rank() < len(random):
        set_random_state(random[dist.get_rank()])
    return int(state["steps"])


def has(folder: Path, kind: str) -> bool:
    return any(folder.glob(f"{kind}-*.safetensors"))


def read(folder: Path, kind: str, expected: Iterable[tuple[str, torch.Size]]) -> Iterator[tuple[str, torch.Tensor]]:
    """Whole tensors, one at a time, on the CPU.

    Raises:
        CheckpointError: a file is missing or cut short, or the checkpoint is of another model.
    """
    from safetensors import SafetensorError, safe_open

    shapes = dict(expected)
    with ExitStack() as stack:
        try:
            files = [stack.enter_context(safe_open(path, "pt")) for path in sorted(folder.glob(f"{kind}-*.safetensors"))]
            owners = {name: file for file in files for name in file.keys()}  # noqa: SIM118 - it is no mapping
            _refuse_other_names(folder / kind, set(owners), set(shapes))
            for name, shape in shapes.items():
                tensor = owners[name].get_tensor(name)
                if tensor.shape != shape:
                    message = (
                        f"{folder / kind}: {name} is {list(tensor.shape)} in the checkpoint and {list(shape)} in the model"
                    )
                    raise CheckpointError(message)
                yield name, tensor
        except (OSError, SafetensorError) as error:
            message = f"{folder / kind}: cannot be read: {error}"
            raise CheckpointError(message) from error


def _refuse_other_names(place: Path, found: set[str], expected: set[str]) -> None:
    if found != expected:
        odd = min(found ^ expected)
        message = f"{place}: the checkpoint is of another model, other adapters or another optimizer: {odd} is on one side only"
        raise CheckpointError(message)
