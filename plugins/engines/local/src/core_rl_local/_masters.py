"""Master weights and their gradients, in float32 whatever the precision of the model.

A float32 parameter is its own master. A bfloat16 parameter has a float32 copy that the optimizer changes and that is rounded
into the model after every step; its gradient is bfloat16 within one micro-batch (as autograd makes it) and is added up in float32
over micro-batches. The gradient of the output layer is added up in float32 over its chunks too.

The optimizer sees each master as a SLOT that lies in memory row by row: the master itself, or its transpose where the master lies
column by column. torch's fused kernels would copy such a matrix to and fro (0.19 s of a step of a 135M model).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch


class Masters:
    """The trainable parameters of a model, by name."""

    def __init__(self, model: torch.nn.Module, *, dense: Sequence[torch.nn.Parameter]) -> None:
        """`dense` parameters have a gradient buffer at all times, to be added to in place."""
        self.params = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.masters: dict[str, torch.Tensor] = {n: p if p.dtype == torch.float32 else _copy(p) for n, p in self.params.items()}
        self.slots = {name: m if m.is_contiguous() else _transpose(m) for name, m in self.masters.items()}
        self._of = {id(p): self.masters[name] for name, p in self.params.items()}
        self._dense = {id(self._of[id(p)]) for p in dense if id(p) in self._of}
        for name, p in self.params.items():
            if self.masters[name] is not p:
                p.register_post_accumulate_grad_hook(self._collect)

    def sink(self, param: torch.Tensor) -> torch.Tensor | None:
        """The buffer that the gradient of this parameter is added to in place; None when it is frozen."""
        master = self._of.get(id(param))
        return None if master is None else _buffer(master)

    def zero_grad(self) -> None:
        for name, master in self.masters.items():
            if self.slots[name] is not master:
                self.slots[name].grad = None
            if id(master) in self._dense:
                _buffer(master).zero_()
            else:
                master.grad = None

    def slots_with_grads(self) -> list[torch.Tensor]:
        """The slots whose masters have a gradient, with that gradient."""
        found = []
        for master, slot in self._pairs():
            if master.grad is None:
                continue
            if slot is not master:
                slot.grad = master.grad.t().contiguous()
            found.append(slot)
        return found

    @torch.no_grad()
    def write_back(self) -> None:
        """The model follows its masters."""
        for name, p in self.params.items():
            if self.masters[name] is not p:
                p.copy_(self.masters[name])

    def move(self, device: torch.device) -> None:
        """After the model has moved: its masters and slots too, without their gradients."""
        for name, p in self.params.items():
            master, slot = self.masters[name], self.slots[name]
            if master is not p:
                master.data = master.data.to(device)
            if slot is not master:
                slot.data = master.data.t()
            master.grad = slot.grad = None

    def _pairs(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return zip(self.masters.values(), self.slots.values(), strict=True)

    def _collect(self, param: Any) -> None:
        buffer = _buffer(self._of[id(param)])
        buffer += param.grad
        param.grad = None


def _copy(param: torch.nn.Parameter) -> torch.Tensor:
    return param.detach().to(torch.float32, memory_format=torch.preserve_format).requires_grad_()


def _transpose(master: torch.Tensor) -> torch.Tensor:
    slot = master.detach().t()
    assert slot.is_contiguous()
    return slot.requires_grad_()


def _buffer(master: torch.Tensor) -> torch.Tensor:
    if master.grad is None:
        master.grad = torch.zeros_like(master)
    return master.grad
