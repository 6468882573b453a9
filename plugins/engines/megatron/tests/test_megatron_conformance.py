"""Megatron in the layouts that a CPU can hold does what the local engine does."""

from __future__ import annotations

from core_rl.testing.train_engines import TrainEngineConformance

PREPARE = "megatron_on_cpu:apply"


class TestDataParallel(TrainEngineConformance):
    engine = "megatron"
    options = {"device": "cpu"}  # noqa: RUF012 - it is read only
    world_sizes = (1, 2)
    prepare = PREPARE


class TestTensorParallel(TrainEngineConformance):
    engine = "megatron"
    options = {"device": "cpu", "tensor_parallel": 2, "distributed_optimizer": False}  # noqa: RUF012
    world_sizes = (2,)
    prepare = PREPARE


class TestPipeline(TrainEngineConformance):
    engine = "megatron"
    options = {"device": "cpu", "pipeline_parallel": 2}  # noqa: RUF012
    world_sizes = (2,)
    prepare = PREPARE


class TestTensorAndSequenceParallel(TrainEngineConformance):
    engine = "megatron"
    options = {"device": "cpu", "tensor_parallel": 2, "sequence_parallel": True, "recompute": "full"}  # noqa: RUF012
    world_sizes = (2,)
    prepare = PREPARE
