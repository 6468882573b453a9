"""Engines: one that trains, one that samples with everything that a rollout engine may have, and an objective."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from core_rl.data.batch import PackedBatch
from core_rl.roles.rollout import (
    Completion,
    DeltaReceiver,
    DiskReceiver,
    GenerateRequest,
    GroupReceiver,
    PauseMode,
    RolloutEngine,
    ScoreRequest,
    Scores,
    ScoringEngine,
    SleepingEngine,
)
from core_rl.roles.train import (
    Aggregation,
    LossOutput,
    Objective,
    PolicyOutputs,
    StepReport,
    TokenOutput,
    TrainEngine,
    Unit,
    Weights,
)
from core_rl.weights.buckets import TensorSpec
from core_rl.weights.group import GroupPlace


class MyObjective:
    entropy_grad: bool = False
    unit: Unit = "sequence"

    def __call__(self, outputs: PolicyOutputs, batch: PackedBatch) -> LossOutput:
        return LossOutput(values=-outputs.logprobs * batch["advantages"], metrics={})


class Trainer:
    def setup(self) -> None: ...

    def forward(
        self,
        batch: PackedBatch,
        outputs: Sequence[TokenOutput] = ("logprobs",),
        *,
        weights: Weights = "current",
        top_k: int | None = None,
    ) -> dict[str, torch.Tensor]:
        del weights, top_k
        return {name: torch.zeros(batch.num_tokens) for name in outputs}

    def train_step(self, batch: PackedBatch, objective: Objective, aggregation: Aggregation) -> StepReport:
        zeros = torch.zeros(batch.num_tokens)
        values = objective(PolicyOutputs(logprobs=zeros, entropy=zeros), batch).values
        loss = float((values * aggregation.weights(batch)).sum())
        return StepReport(loss=loss, grad_norm=0.0, lr=0.1, num_tokens=batch.num_tokens, num_micro_batches=1)

    def reset_reference(self) -> None: ...

    def export_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        yield "weight", torch.zeros(1)

    def save(self, path: Path) -> None: ...

    def load(self, path: Path) -> None: ...

    def save_hf(self, path: Path) -> None: ...

    def offload(self) -> None: ...

    def onload(self) -> None: ...

    def close(self) -> None: ...

    def describe(self) -> dict[str, str]:
        return {"device": "cpu"}


class Sampler:
    async def start(self) -> None: ...

    async def generate(self, request: GenerateRequest) -> list[Completion]:
        return [Completion(tokens=[1], logprobs=[-0.1], finish_reason="stop", versions=())] * request.n

    async def pause(self, mode: PauseMode = "abort") -> None: ...

    async def resume(self) -> None: ...

    async def abort(self, request_id: str) -> None: ...

    async def begin_update(self) -> None: ...

    async def update(self, tensors: Sequence[tuple[str, Any]]) -> None: ...

    async def end_update(self, version: int) -> None: ...

    async def fingerprint(self) -> dict[str, float]:
        return {"weight": 0.0}

    async def close(self) -> None: ...

    def stats(self) -> Mapping[str, float]:
        return {"tokens": 1}

    async def score(self, request: ScoreRequest) -> Scores:
        return Scores(logprobs=[0.0] * len(request.tokens))

    async def sleep(self) -> None: ...

    async def wake(self) -> None: ...

    async def update_from_disk(self, path: str) -> None: ...

    def members(self) -> dict[str, int]:
        return {"server-0": 1}

    async def join_group(self, place: GroupPlace) -> None: ...

    async def update_from_group(self, specs: Sequence[TensorSpec]) -> None: ...

    async def update_delta(self, changes: Sequence[tuple[str, Any]]) -> None: ...


objective: Objective = MyObjective()
trainer: TrainEngine = Trainer()
sampler: RolloutEngine = Sampler()
scoring: ScoringEngine = Sampler()
sleeping: SleepingEngine = Sampler()
disk: DiskReceiver = Sampler()
group: GroupReceiver = Sampler()
delta: DeltaReceiver = Sampler()
