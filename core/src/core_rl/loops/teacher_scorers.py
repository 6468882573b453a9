"""Where a teacher is computed: a frozen model in a train engine, or a rollout engine that scores.

N tokens of a batch.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

import attrs
import torch

from core_rl.roles.rollout import ScoreRequest

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.roles.rollout import Scores, ScoringEngine
    from core_rl.roles.train import TrainEngine


class Scorer(Protocol):
    """Whoever computes the teacher."""

    def setup(self) -> None: ...

    async def start(self) -> None: ...

    async def score(self, batch: PackedBatch, *, top_k: int | None = None) -> dict[str, torch.Tensor]:
        """As `TrainEngine.forward` with the output `logprobs`."""
        ...

    async def stop(self) -> None: ...

    def close(self) -> None: ...


@attrs.frozen(kw_only=True)
class InTrainEngine:
    """A frozen model in a train engine of its own."""

    engine: TrainEngine

    def setup(self) -> None:
        self.engine.setup()

    async def start(self) -> None:
        """`setup` has done it."""

    async def score(self, batch: PackedBatch, *, top_k: int | None = None) -> dict[str, torch.Tensor]:
        if top_k is None:  # an engine that provides no topk_logprobs need not know the word
            return self.engine.forward(batch, ["logprobs"])
        return self.engine.forward(batch, ["logprobs"], top_k=top_k)

    async def stop(self) -> None:
        """`close` does it."""

    def close(self) -> None:
        self.engine.close()


@attrs.frozen(kw_only=True)
class InRolloutEngine:
    """A rollout engine with the method `score`. Every sequence with a token in the mask is one request; all are in flight at once."""

    engine: ScoringEngine
    temperature: float

    def setup(self) -> None:
        """`start` does it."""

    async def start(self) -> None:
        await self.engine.start()

    async def score(self, batch: PackedBatch, *, top_k: int | None = None) -> dict[str, torch.Tensor]:
        bounds = batch.cu_seqlens.tolist()
        chosen = batch.sequence_ids[batch.loss_mask].unique().tolist()
        requests = [
            ScoreRequest(
                id=f"teacher-{s}",
                tokens=batch.tokens[bounds[s] : bounds[s + 1]].tolist(),
                top_k=top_k or 0,
                temperature=self.temperature,
            )
            for s in chosen
        ]
        scores = await asyncio.gather(*(self.engine.score(request) for request in requests))
        found = _empty(batch.num_tokens, top_k)
        for s, score in zip(chosen, scores, strict=True):
            _put(found, score, slice(bounds[s], bounds[s + 1]))
        return {name: _masked(values, batch.loss_mask) for name, values in found.items()}

    async def stop(self) -> None:
        await self.engine.close()

    def close(self) -> None:
        """`stop` does it."""


def _empty(count: int, top_k: int | None) -> dict[str, torch.Tensor]:
    found = {"logprobs": torch.zeros(count)}
    if top_k is not None:
        found |= {"topk_ids": torch.zeros(count, top_k, dtype=torch.int64), "topk_logprobs": torch.zeros(count, top_k)}
    return found


def _put(found: dict[str, torch.Tensor], score: Scores, where: slice) -> None:
    """The first token of a sequence has no likeliest tokens: nothing stands before it."""
    found["logprobs"][where] = torch.tensor(score.logprobs)
    for name, rows in (("topk_ids", score.topk_ids), ("topk_logprobs", score.topk_logprobs)):
        if name in found:
            found[name][where.start + 1 : where.stop] = torch.tensor(rows[1:], dtype=found[name].dtype)


def _masked(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return values * mask.view(-1, *(1,) * (values.dim() - 1))
