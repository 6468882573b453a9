"""Engines that do nothing but tell what they were built with, for a launcher to start wherever it starts engines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from core_rl.errors import ModelError

if TYPE_CHECKING:
    import torch


@attrs.frozen(kw_only=True)
class ToldConfig:
    """Options of both engines."""

    word: str = attrs.field(metadata={"help": "told again by describe"})
    fails: bool = attrs.field(default=False, metadata={"help": "setup raises"})


class ToldTrainEngine:
    """`describe` has its options, the seed of its context, and its process. `closed` in the folder of `word` says that it was closed."""

    __core_rl_config__ = ToldConfig

    def __init__(self, options: ToldConfig, context: Any) -> None:
        self.options = options
        self.context = context

    def setup(self) -> None:
        if self.options.fails:
            message = f"no model {self.options.word}"
            raise ModelError(message)

    def describe(self) -> Mapping[str, Any]:
        return {"word": self.options.word, "seed": self.context.seed, "pid": os.getpid()}

    def export_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        import torch

        for index in range(3):
            yield f"weight.{index}", torch.full((2,), float(index))

    def save(self, path: Path) -> None:
        (path / "saved").write_text(self.options.word, encoding="utf-8")

    def close(self) -> None:
        with (Path(self.options.word) / "closed").open("a", encoding="utf-8") as file:
            file.write("closed\n")


class ToldRolloutEngine:
    """Its `stats` has the seed; `start` and `close` are noted."""

    __core_rl_config__ = ToldConfig

    def __init__(self, options: ToldConfig, context: Any) -> None:
        self.options = options
        self.context = context
        self.calls: list[str] = []

    async def start(self) -> None:
        self.calls.append(f"start {self.options.word}")

    async def close(self) -> None:
        self.calls.append("close")

    def stats(self) -> Mapping[str, float]:
        return {"seed": float(self.context.seed)}
