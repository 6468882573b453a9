"""Megatron in the layouts that a CPU can hold does what the local engine does."""

from __future__ import annotations

import attrs
import pytest

from core_rl.testing.train_engines import HALF, TrainEngineConformance, tiny

PREPARE = "megatron_on_cpu:apply"


@pytest.mark.slow
class TestDataParallel(TrainEngineConformance):
    component = "megatron"
    options = {"device": "cpu"}  # noqa: RUF012 - it is read only
    world_sizes = (1, 2)
    prepare = PREPARE


@pytest.mark.slow
class TestTensorParallel(TrainEngineConformance):
    component = "megatron"
    options = {"device": "cpu", "tensor_parallel": 2, "distributed_optimizer": False}  # noqa: RUF012
    world_sizes = (2,)
    prepare = PREPARE


@pytest.mark.slow
class TestTensorAndSequenceParallel(TrainEngineConformance):
    component = "megatron"
    options = {"device": "cpu", "tensor_parallel": 2, "sequence_parallel": True, "recompute": "full"}  # noqa: RUF012
    world_sizes = (2,)
    prepare = PREPARE


@pytest.mark.slow
class TestPipeline(TrainEngineConformance):
    component = "megatron"
    options = {"device": "cpu", "pipeline_parallel": 2}  # noqa: RUF012
    world_sizes = (2,)
    prepare = PREPARE


@pytest.mark.slow
class TestInterleavedPipeline(TrainEngineConformance):
    component = "megatron"
    options = {"device": "cpu", "pipeline_parallel": 2, "virtual_pipeline": 2}  # noqa: RUF012
    world_sizes = (2,)
    models = {"llama": tiny("llama", tie_word_embeddings=True, num_hidden_layers=4)}  # noqa: RUF012
    prepare = PREPARE


@pytest.mark.slow
class TestBfloat16(TrainEngineConformance):
    component = "megatron"
    options = {"device": "cpu", "tensor_parallel": 2}  # noqa: RUF012
    world_sizes = (2,)
    dtype = "bfloat16"
    tolerances = attrs.evolve(HALF, metrics=0.16)  # the largest ratio is the exponential of a log-probability: e^0.15 - 1
    prepare = PREPARE
