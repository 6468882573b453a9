"""Every stage of ZeRO, on one worker and on two, does what the local engine does."""

from __future__ import annotations

import pytest

from core_rl.testing.train_engines import TrainEngineConformance


@pytest.mark.slow
class TestStage3(TrainEngineConformance):
    engine = "deepspeed"
    options = {"device": "cpu", "zero_stage": 3}  # noqa: RUF012 - it is read only
    world_sizes = (1, 2)


@pytest.mark.slow
class TestStage0(TrainEngineConformance):
    engine = "deepspeed"
    options = {"device": "cpu", "zero_stage": 0}  # noqa: RUF012
    world_sizes = (1, 2)


@pytest.mark.slow
class TestStage1(TrainEngineConformance):
    engine = "deepspeed"
    options = {"device": "cpu", "zero_stage": 1}  # noqa: RUF012
    world_sizes = (1, 2)


@pytest.mark.slow
class TestStage2(TrainEngineConformance):
    engine = "deepspeed"
    options = {"device": "cpu", "zero_stage": 2}  # noqa: RUF012
    world_sizes = (1, 2)
