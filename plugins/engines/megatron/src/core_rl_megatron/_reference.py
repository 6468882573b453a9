"""The reference policy: a rank's weights as they once were, on the host, put in place while they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch


class Reference:
    """A copy of `parameters` as they are now."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        self._parameters = parameters
        self._copies = [p.detach().to("cpu", copy=True) for p in parameters]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the model is the reference. What the optimizer and its buffers look at does not change."""
        current = [p.data for p in self._parameters]
        try:
            for p, copy in zip(self._parameters, self._copies, strict=True):
                p.data = copy.to(p.device)
            yield
        finally:
            for p, data in zip(self._parameters, current, strict=True):
                p.data = data

    @torch.no_grad()
    def take(self) -> None:
        """The model as it is inside `in_place`, after something has been loaded into it."""
        self._copies = [p.detach().to("cpu", copy=True) for p in self._parameters]
