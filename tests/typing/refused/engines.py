"""Engines that are not whole, or answer otherwise than the loop expects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from core_rl.data.batch import PackedBatch
from core_rl.roles.rollout import Completion, GenerateRequest, RolloutEngine
from core_rl.roles.train import Objective, PolicyOutputs, StepReport, TrainEngine


class HalfTrainer:
    def setup(self) -> None: ...

    def forward(self, batch: PackedBatch) -> dict[str, torch.Tensor]:
        return {"logprobs": torch.zeros(batch.num_tokens)}


class Sampler:
    async def start(self) -> None: ...

    async def generate(self, request: GenerateRequest) -> Completion:
        why = "eos"
        return Completion(tokens=[1], logprobs=[-0.1], finish_reason=why, versions=())  # E: expected "Literal['stop'

    async def pause(self, mode: str = "abort") -> None: ...

    async def resume(self) -> None: ...

    async def abort(self, request_id: str) -> None: ...

    async def begin_update(self) -> None: ...

    async def update(self, tensors: Sequence[tuple[str, Any]]) -> None: ...

    async def end_update(self, version: int) -> None: ...

    async def fingerprint(self) -> Mapping[str, float]:
        return {}

    async def close(self) -> None: ...

    def stats(self) -> Mapping[str, float]:
        return {}


class Mean:
    entropy_grad = False

    def __call__(self, outputs: PolicyOutputs, batch: PackedBatch) -> torch.Tensor:
        return outputs.logprobs[batch.loss_mask].mean()


trainer: TrainEngine = HalfTrainer()  # E: variable has type "TrainEngine"
sampler: RolloutEngine = Sampler()  # E: variable has type "RolloutEngine"
objective: Objective = Mean()  # E: variable has type "Objective"

StepReport(loss=0.1, grad_norm=0.1, lr=0.1, num_tokens=1)  # E: Missing named argument "num_micro_batches"
