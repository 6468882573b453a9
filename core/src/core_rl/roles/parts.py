"""The contracts of the parts around the engines: data, workflow, weight transport, launcher, logger, importer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import attrs

if TYPE_CHECKING:
    from core_rl.component import Component
    from core_rl.data.records import Row
    from core_rl.data.sample import Prompt, Sample
    from core_rl.hf.tokenizer import Tokenizer
    from core_rl.roles.rollout import RolloutContext, RolloutEngine, SamplingParams
    from core_rl.roles.train import TrainContext, TrainEngine

Split = Literal["train", "eval"]


class Data(Protocol):
    """Built as `Data(options)`. `load` raises `DataError` for a source that is missing, broken or empty.

    Its component `provides` the kind of its rows: `prompts` (`core_rl.data.sample.Prompt`; also where nothing is said), or
    `conversations`, `pairs`, `labelled` (`core_rl.data.records`).
    """

    def load(self, split: Split, seed: int) -> Sequence[Row]:
        """A sequence of fixed length and order; the loop shuffles. Row i is the same on every call with the same seed."""
        ...


class Workflow(Protocol):
    """Built as `Workflow(options)`: how one prompt becomes samples (one turn, tools, an environment)."""

    async def run(
        self,
        prompt: Prompt,
        *,
        n: int,
        engine: RolloutEngine,
        tokenizer: Tokenizer,
        params: SamplingParams,
        seed: int,
    ) -> list[Sample]: ...


@attrs.frozen(kw_only=True)
class SyncReport:
    """One weight update: the bytes that moved, and the fingerprint both sides agreed on."""

    version: int
    num_bytes: int


class WeightTransport(Protocol):
    """Built as `Transport(options)`. Moves the trainer's weights to the rollout engine and proves that they arrived."""

    async def sync(self, source: TrainEngine, target: RolloutEngine, version: int) -> SyncReport: ...


class Launcher(Protocol):
    """Built as `Launcher(options)`. Says where engines live; the training loop does not know which one it has."""

    def train_engine(self, component: Component, options: Any, context: TrainContext) -> TrainEngine:
        """The component, built here or elsewhere, or something that stands for it. Called once for each engine of the run."""
        ...

    def rollout_engine(self, component: Component, options: Any, context: RolloutContext) -> RolloutEngine:
        """The same for sampling."""
        ...

    def close(self) -> None:
        """Ends what it has started, after the engines were closed; also after a failure."""
        ...


@attrs.frozen(kw_only=True)
class RunInfo:
    """What a logger is told at the start. `config` is the resolved run file with secrets masked."""

    name: str
    dir: Path
    config: Mapping[str, Any]
    resumed_from: int | None = None
    """The step of the checkpoint that the run goes on from; rows of later steps are void."""
    total_steps: int = 0


class Logger(Protocol):
    """Built as `Logger(options)`. A logger that raises is switched off with one warning; training goes on."""

    def start(self, run: RunInfo) -> None:
        """Called once, before anything is logged."""
        ...

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """The numbers of a step. 0 is the evaluation before the first one."""
        ...

    def log_samples(self, step: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Completions of a step, every `run.log_samples_every` steps: `split`, `id`, `prompt`, `completion`, `answer`, `reward`, …"""
        ...

    def finish(self, status: Literal["done", "failed", "interrupted"]) -> None:
        """Called once, after the last row; also after a failure."""
        ...


@runtime_checkable
class ProgressLogger(Protocol):
    """What a logger may have beside the methods of `Logger`: how far the phase of a step is."""

    def progress(self, phase: str, done: int, total: int) -> None: ...


class ConfigImporter(Protocol):
    """Built as `Importer()`. Reads another system's configuration file into ours."""

    def load(self, path: Path) -> Mapping[str, Any]: ...
