"""The reference policy: a frozen copy of the trainable weights, in the precision of the model and cut as the model's own are.

It waits on the CPU where the model is on a GPU, and stands in the model's place while it is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from core_rl_deepspeed._shards import Parameter, Shards

if TYPE_CHECKING:
    import torch


class Reference:
    """At first the policy as it is."""

    def __init__(self, shards: Shards, params: Mapping[str, Parameter]) -> None:
        self._shards = shards
        self._params = params
        self.moved = False
        """Whether it is another policy than the one that the model's own files hold."""
        self._pieces: dict[str, torch.Tensor] = {}
        self._take()

    def reset(self) -> None:
        """The policy of now."""
        self._take()
        self.moved = True

    def load(self, name: str, value: torch.Tensor) -> None:
        """A whole weight of a checkpoint."""
        self._pieces[name] = self._shards.cut(self._params[name], value).to("cpu", copy=True)
        self.moved = True

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the model is the reference."""
        self._shards.settle()
        pieces = {name: self._shards.piece(param) for name, param in self._params.items()}
        current = {name: piece.data for name, piece in pieces.items()}
        try:
            for name, piece in pieces.items():
                piece.data = self._pieces[name].to(piece.device)
            yield
        finally:
            self._shards.settle()
            for name, piece in pieces.items():
                piece.data = current[name]

    def _take(self) -> None:
        self._pieces = {name: self._shards.piece(p).detach().to("cpu", copy=True) for name, p in self._params.items()}
