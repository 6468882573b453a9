"""Master weights and their gradients, in float32 whatever the precision of the model.

A float32 parameter is its own master. A bfloat16 parameter has a float32 copy that the optimizer changes and that is rounded
into the model after every step; its gradient is bfloat16 within one micro-batch (as autograd makes it) and is added up in float32
over micro-batches. The gradient of the output layer is added up in float32 over its chunks too.
"""

from __future__ import annotations

from typing import Any

import torch


class Masters:
    """The trainable parameters of a model, by name."""

    def __init__(self, model: torch.nn.Module, *, dense: list[torch.nn.Parameter]) -> None:
        """`dense` parameters have a gradient buffer at all times, to be added to in place."""
        self.params = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.masters = {name: p if p.dtype == torch.float32 else _copy(p) for name, p in self.params.items()}
        self._of = {id(p): self.masters[name] for name, p in self.params.items()}
        self._dense = {id(self._of[id(p)]) for p in dense if id(p) in self._of}
        for name, p in self.params.items():
            if self.masters[name] is not p:
                p.register_post_accumulate_grad_hook(self._collect)

    def sink(self, param: torch.Tensor) -> torch.Tensor | None:
        """The buffer that the gradient of this parameter is added to in place; None when it is frozen."""
        master = self._of.get(id(param))
        if master is None:
            return None
        if master.grad is None:
            master.grad = torch.zeros_like(master)
        return master.grad

    def zero_grad(self) -> None:
        for master in self.masters.values():
            if id(master) not in self._dense:
                master.grad = None
            elif master.grad is None:
                master.grad = torch.zeros_like(master)
            else:
                master.grad.zero_()

    def with_grads(self) -> list[torch.Tensor]:
        """Masters that have a gradient, which lies in memory as they do: fused optimizers read both as flat arrays."""
        found = [master for master in self.masters.values() if master.grad is not None]
        for master in found:
            assert master.grad is not None
            if master.grad.stride() != master.stride():
                master.grad = torch.empty_like(master).copy_(master.grad)
        return found

    @torch.no_grad()
    def write_back(self) -> None:
        """The model follows its masters."""
        for name, p in self.params.items():
            if self.masters[name] is not p:
                p.copy_(self.masters[name])

    def move(self, device: torch.device | str) -> None:
        """Copies and gradients; parameters that are their own masters move with the model."""
        for name, p in self.params.items():
            master = self.masters[name]
            if master is not p:
                master.data = master.data.to(device)
            if master.grad is not None:
                master.grad = None

    def _collect(self, param: Any) -> None:
        master = self._of[id(param)]
        if master.grad is None:
            master.grad = torch.zeros_like(master)
        master.grad += param.grad
        param.grad = None


def _copy(param: torch.nn.Parameter) -> torch.Tensor:
    return param.detach().to(torch.float32, memory_format=torch.preserve_format).requires_grad_()
