"""Data, workflow, weight transport, launcher, loggers, importer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core_rl.component import Component
from core_rl.data.records import Pair
from core_rl.data.sample import Prompt, Sample, Turn
from core_rl.hf.tokenizer import Tokenizer
from core_rl.plugins.build import build_component
from core_rl.roles.parts import (
    ConfigImporter,
    Data,
    Launcher,
    Logger,
    ProgressLogger,
    RunInfo,
    Split,
    SyncReport,
    WeightTransport,
    Workflow,
)
from core_rl.roles.rollout import GenerateRequest, RolloutContext, RolloutEngine, SamplingParams
from core_rl.roles.train import TrainContext, TrainEngine


class Prompts:
    def load(self, split: Split, seed: int) -> list[Prompt]:
        return [Prompt(id=f"{split}-{seed}", text="1+1=", answer="2", metadata={"level": 1})]


class Pairs:
    def load(self, split: Split, seed: int) -> tuple[Pair, ...]:
        return (Pair(id=f"{split}-{seed}", prompt="1+1=", chosen="2", rejected="3"),)


class MyWorkflow:
    async def run(
        self,
        prompt: Prompt,
        *,
        n: int,
        engine: RolloutEngine,
        tokenizer: Tokenizer,
        params: SamplingParams,
        seed: int,
    ) -> list[Sample]:
        ids = tokenizer.encode(prompt.text or "")
        done = await engine.generate(GenerateRequest(id=f"{prompt.id}/{seed}", prompt_ids=ids, params=params, n=n, seed=seed))
        return [
            Sample(
                prompt=prompt,
                turns=[
                    Turn(tokens=ids, generated=False),
                    Turn(tokens=one.tokens, generated=True, logprobs=one.logprobs, versions=one.versions, reward=0.5),
                ],
                finish_reason=one.finish_reason,
                completion_text=tokenizer.decode(one.tokens, skip_special_tokens=True),
            )
            for one in done
        ]


class MyTransport:
    async def sync(self, source: TrainEngine, target: RolloutEngine, version: int) -> SyncReport:
        await target.begin_update()
        moved = 0
        for name, tensor in source.export_weights():
            await target.update([(name, tensor)])
            moved += tensor.nbytes
        await target.end_update(version)
        return SyncReport(version=version, num_bytes=moved)


class MyLauncher:
    def train_engine(self, component: Component, options: Any, context: TrainContext) -> TrainEngine:
        engine: TrainEngine = build_component(component, options, context)
        return engine

    def rollout_engine(self, component: Component, options: Any, context: RolloutContext) -> RolloutEngine:
        engine: RolloutEngine = build_component(component, options, context)
        return engine

    def close(self) -> None: ...


class MyLogger:
    """With the method that a logger may have beside the others; `finish` takes any text."""

    def start(self, run: RunInfo) -> None:
        print(run.config["run"])

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        print(step, metrics["loss"])

    def log_samples(self, step: int, rows: Sequence[Mapping[str, Any]]) -> None:
        print(step, [row["completion"] for row in rows])

    def finish(self, status: str) -> None:
        print(status)

    def progress(self, phase: str, done: int, total: int) -> None:
        print(phase, done / total)


class MyImporter:
    def load(self, path: Path) -> dict[str, Any]:
        return {"run": {"name": path.stem}}


data: list[Data] = [Prompts(), Pairs()]
workflow: Workflow = MyWorkflow()
transport: WeightTransport = MyTransport()
launcher: Launcher = MyLauncher()
logger: Logger = MyLogger()
progress: ProgressLogger = MyLogger()
importer: ConfigImporter = MyImporter()
