"""What checks do with an engine, on the one under test and on the reference: a script returns all that is compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from core_rl.numerics.aggregation import Aggregator
from core_rl.roles.train import StepReport
from core_rl.testing.train_engine.batches import grouped_batch
from core_rl.testing.train_engine.objectives import Ratio

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch
    from core_rl.roles.train import Objective, TokenOutput, TrainEngine

TOKEN_MEAN = Aggregator("token-mean")
POLICY: tuple[TokenOutput, ...] = ("logprobs", "entropy")


@attrs.frozen(kw_only=True, eq=False)
class Step:
    """A step's report, and the weights after it."""

    report: StepReport
    weights: dict[str, torch.Tensor]


def weights_of(engine: TrainEngine) -> dict[str, torch.Tensor]:
    """Copies, float32 on the CPU."""
    return {name: tensor.detach().float().cpu().clone() for name, tensor in engine.export_weights()}


def take_step(engine: TrainEngine, batch: PackedBatch, objective: Objective | None = None) -> Step:
    report = engine.train_step(batch, objective or Ratio(), TOKEN_MEAN)
    return Step(report=report, weights=weights_of(engine))


def forward(engine: TrainEngine) -> dict[str, torch.Tensor]:
    return engine.forward(grouped_batch(1), POLICY)


def logprobs(engine: TrainEngine) -> torch.Tensor:
    return engine.forward(grouped_batch(1))["logprobs"]


def initial_weights(engine: TrainEngine) -> dict[str, torch.Tensor]:
    return weights_of(engine)


def one_step(engine: TrainEngine) -> Step:
    return take_step(engine, grouped_batch(1))


def three_steps(engine: TrainEngine) -> list[Step]:
    """On three batches."""
    return [take_step(engine, grouped_batch(seed)) for seed in (1, 2, 3)]
