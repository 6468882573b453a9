"""The local engine, in a worker process, against itself in this one: it passes the suite that it is the measure of."""

from __future__ import annotations

from core_rl.testing.train_engines import TrainEngineConformance


class TestLocal(TrainEngineConformance):
    component = "local"
    options = {"device": "cpu"}  # noqa: RUF012 - it is read only
