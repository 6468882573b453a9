"""DeepSpeed, at every stage of ZeRO, on one worker and on two, does what the local engine does."""

from __future__ import annotations

from typing import Any

import pytest

from core_rl.testing.train_engines import HALF, MODELS, Case, Subject, Suite, TrainEngineConformance

CHECKPOINTED = {"gradient_checkpointing": True}
OFFLOADED = {"offload_optimizer": "cpu", "offload_parameters": "cpu"}


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_each_stage_on_two_workers(bench, stage):
    """Outputs, steps of several micro-batches, checkpoints, reference and refused gradients are those of the local engine."""
    subject = Subject(engine="deepspeed", options={"device": "cpu", "zero_stage": stage}, world_sizes=(2,))
    suite = Suite(subject, bench)
    names = ("micro_batches", "nan_loss", "resume_with_reference")
    outcomes = [suite.outcome(Case(check=name, model="llama", world_size=2)) for name in names]

    assert [(one.case.check, one.reason) for one in outcomes if one.status != "passed"] == []


class _Float32(TrainEngineConformance):
    component = "deepspeed"
    world_sizes = (1, 2)


class _BFloat16(TrainEngineConformance):
    component = "deepspeed"
    world_sizes = (2,)
    models = {"llama": MODELS["llama"]}  # noqa: RUF012 - it is read only
    dtype = "bfloat16"
    tolerances = HALF


def _options(stage: int, **more: Any) -> dict[str, Any]:
    return {"device": "cpu", "zero_stage": stage, **more}


@pytest.mark.slow
class TestStage0(_Float32):
    options = _options(0)


@pytest.mark.slow
class TestStage1(_Float32):
    options = _options(1)


@pytest.mark.slow
class TestStage2(_Float32):
    options = _options(2)


@pytest.mark.slow
class TestStage3(_Float32):
    options = _options(3)


@pytest.mark.slow
class TestStage3WithoutPersistentWeights(_Float32):
    """Small weights, which DeepSpeed keeps whole between steps, are in shards too, as all but the smallest are in a real model."""

    world_sizes = (2,)
    options = _options(3, config={"zero_optimization": {"stage3_param_persistence_threshold": 0}}, **CHECKPOINTED)


@pytest.mark.slow
class TestStage2Offloaded(_Float32):
    world_sizes = (2,)
    options = _options(2, offload_optimizer="cpu")


@pytest.mark.slow
class TestStage3Offloaded(_Float32):
    world_sizes = (2,)
    options = _options(3, **OFFLOADED)


@pytest.mark.slow
class TestStage0BFloat16(_BFloat16):
    options = _options(0)


@pytest.mark.slow
class TestStage1BFloat16(_BFloat16):
    options = _options(1)


@pytest.mark.slow
class TestStage1BFloat16Offloaded(_BFloat16):
    options = _options(1, offload_optimizer="cpu")


@pytest.mark.slow
class TestStage2BFloat16(_BFloat16):
    options = _options(2)


@pytest.mark.slow
class TestStage2BFloat16Offloaded(_BFloat16):
    options = _options(2, offload_optimizer="cpu")


@pytest.mark.slow
class TestStage3BFloat16Offloaded(_BFloat16):
    options = _options(3, **OFFLOADED)


@pytest.mark.slow
class TestStage3BFloat16(_BFloat16):
    options = _options(3, **CHECKPOINTED)
