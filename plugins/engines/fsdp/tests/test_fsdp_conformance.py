"""FSDP on one worker and on two does what the local engine does."""

from __future__ import annotations

from core_rl.testing.train_engines import TrainEngineConformance


class TestFsdp(TrainEngineConformance):
    engine = "fsdp"
    options = {"device": "cpu"}  # noqa: RUF012 - it is read only
    world_sizes = (1, 2)


class TestUlysses(TrainEngineConformance):
    """Two ranks share the tokens of every micro-batch."""

    engine = "fsdp"
    options = {"device": "cpu", "ulysses": 2}  # noqa: RUF012 - it is read only
    world_sizes = (2,)


class TestTensorParallel(TrainEngineConformance):
    """Two ranks share every matrix and the vocabulary."""

    engine = "fsdp"
    options = {"device": "cpu", "tensor_parallel": 2}  # noqa: RUF012 - it is read only
    world_sizes = (2,)
