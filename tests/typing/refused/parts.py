"""Data, workflows, transports, launchers, loggers and importers with a wrong signature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from core_rl.component import Component
from core_rl.data.sample import Prompt, Sample, Turn
from core_rl.roles.parts import ConfigImporter, Data, Launcher, Logger, RunInfo, SyncReport, WeightTransport, Workflow
from core_rl.roles.rollout import RolloutContext, RolloutEngine, SamplingParams
from core_rl.roles.train import TrainContext, TrainEngine


class Stream:
    def load(self, split: str, seed: int) -> Iterator[Prompt]:
        yield Prompt(id=f"{split}-{seed}", text="?")


class Rows:
    def load(self, split: str, seed: int) -> list[dict[str, str]]:
        return [{"prompt": split, "seed": str(seed)}]


class NotAsync:
    def run(
        self, prompt: Prompt, *, n: int, engine: RolloutEngine, tokenizer: Any, params: SamplingParams, seed: int
    ) -> list[Sample]:
        return []


class WithoutParams:
    async def run(self, prompt: Prompt, *, n: int, engine: RolloutEngine, tokenizer: Any, seed: int) -> list[Sample]:
        return []


class NoReport:
    async def sync(self, source: TrainEngine, target: RolloutEngine, version: int) -> None:
        await target.end_update(version)


class NoRollout:
    def train_engine(self, component: Component, options: Any, context: TrainContext) -> TrainEngine:
        raise NotImplementedError

    def close(self) -> None: ...


class OneContext(NoRollout):
    def rollout_engine(self, component: Component, options: Any, context: TrainContext) -> RolloutEngine:
        raise NotImplementedError


class OnlyNumbers:
    def start(self, run: RunInfo) -> None: ...

    def log(self, step: int, metrics: Mapping[str, int]) -> None: ...

    def log_samples(self, step: int, rows: list[dict[str, Any]]) -> None: ...

    def finish(self, status: str) -> None: ...


class FromText:
    def load(self, path: str) -> Mapping[str, Any]:
        return {"path": path}


stream: Data = Stream()  # E: variable has type "Data"
rows: Data = Rows()  # E: variable has type "Data"
not_async: Workflow = NotAsync()  # E: variable has type "Workflow"
without_params: Workflow = WithoutParams()  # E: variable has type "Workflow"
no_report: WeightTransport = NoReport()  # E: variable has type "WeightTransport"
no_rollout: Launcher = NoRollout()  # E: variable has type "Launcher"
one_context: Launcher = OneContext()  # E: variable has type "Launcher"
logger: Logger = OnlyNumbers()  # E: variable has type "Logger"
importer: ConfigImporter = FromText()  # E: variable has type "ConfigImporter"

Prompt(text="?")  # E: Missing named argument "id"
Turn(tokens=[1], generated="yes")  # E: expected "bool"
SyncReport(version=1, bytes=0)  # E: Unexpected keyword argument "bytes"
RolloutContext(seed=1)  # E: Missing named argument "model"
SamplingParams(temperature="hot")  # E: expected "float"
