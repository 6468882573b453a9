"""Looking at a model between trainings: evaluation and generation from a run folder, a run file or a model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from core_rl.config.load import load_run_file
from core_rl.config.offline import OfflineConfig
from core_rl.config.selection import select
from core_rl.data.sample import Message, Prompt, Sample
from core_rl.errors import CheckpointError, DataError
from core_rl.hf.spec import ModelSpec
from core_rl.loops.evaluate import evaluate
from core_rl.loops.journal import sample_row
from core_rl.loops.offline_evaluate import evaluate_rows
from core_rl.loops.offline_parts import assemble_offline, assemble_sampling
from core_rl.loops.offline_reference import references_of
from core_rl.loops.parts import Parts, assemble
from core_rl.plugins.build import build
from core_rl.plugins.catalogue import Catalogue
from core_rl.run.checkpoints import Checkpoints
from core_rl.run.directory import RunDirectory

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile
    from core_rl.roles.rollout import SamplingParams

Result = TypeVar("Result")


def evaluate_target(
    target: Path, overrides: Sequence[str], *, step: int | None
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Metrics on the held-out prompts, and a row for each completion; of an offline run the loss on held-out rows."""
    file, checkpoint = _open(target, overrides, step)
    held_out = load_held_out(file)
    if isinstance(file.algorithm.options, OfflineConfig):
        return _evaluate_offline(file, checkpoint, held_out), []

    async def work(parts: Parts) -> tuple[dict[str, float], list[dict[str, Any]]]:
        metrics, groups = await evaluate(parts, held_out)
        return metrics, [sample_row(sample, split="eval") for group in groups for sample in group.samples]

    return asyncio.run(_with_engines(file, checkpoint, work))


def generate_from(
    target: str,
    text: str,
    params: SamplingParams,
    *,
    step: int | None,
    n: int,
    seed: int,
    system: str | None,
    raw: bool,
) -> list[Sample]:
    """`n` completions of one prompt."""
    path = Path(target)
    is_run = path.suffix in {".yaml", ".yml"} or (path / "config.yaml").is_file()
    file, checkpoint = _open(path, [], step) if is_run else (None, None)
    prompt = _prompt(text, system=system, raw=raw)

    async def work(parts: Parts) -> list[Sample]:
        return await parts.workflow.run(prompt, n=n, engine=parts.rollout, tokenizer=parts.tokenizer, params=params, seed=seed)

    if file is None:
        return asyncio.run(_generate_with_model(ModelSpec(path=target), prompt, params, n=n, seed=seed))
    return asyncio.run(_with_engines(file, checkpoint, work))


def load_held_out(file: RunFile) -> Sequence[Any]:
    """The rows of `eval_data`, or of the eval split of `data`.

    Raises:
        DataError: there are none.
    """
    held_out: Sequence[Any] = build(file.eval_data or file.data).load("eval", file.run.seed)
    if len(held_out) == 0:
        message = "eval_data: there are no held-out rows; give eval_data, an eval split in data, or eval.every: 0"
        raise DataError(message)
    return held_out


def _prompt(text: str, *, system: str | None, raw: bool) -> Prompt:
    if raw:
        return Prompt(id="prompt", text=text)
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    return Prompt(id="prompt", messages=(*messages, {"role": "user", "content": text}))


def _open(target: Path, overrides: Sequence[str], step: int | None) -> tuple[RunFile, Path | None]:
    """The run file, and the checkpoint folder to load (None: the model as it starts)."""
    if target.is_dir():
        directory = RunDirectory.open(target)
        file = load_run_file(directory.config, overrides)
        checkpoints = Checkpoints(directory.checkpoints, file.checkpoint)
        checkpoint = checkpoints.newest_good() if step is None else checkpoints.at(step)
        if checkpoint is None:
            message = f"{target}: no good checkpoint in this run folder"
            raise CheckpointError(message)
        return file, checkpoint.path
    if step is not None:
        message = f"--step: {target} is a run file; give the run folder that has checkpoints"
        raise CheckpointError(message)
    return load_run_file(target, overrides), None


def _evaluate_offline(file: RunFile, checkpoint: Path | None, held_out: Sequence[Any]) -> dict[str, float]:
    parts = assemble_offline(file)
    try:
        parts.setup()
        if parts.precomputes_reference:  # of the weights as they start; those of a run are in its folder
            held_out = references_of(parts, held_out)
        if checkpoint is not None:
            parts.load(checkpoint)
        return evaluate_rows(parts, held_out)
    finally:
        parts.close()


async def _with_engines(file: RunFile, checkpoint: Path | None, work: Callable[[Any], Awaitable[Result]]) -> Result:
    parts = assemble_sampling(file) if isinstance(file.algorithm.options, OfflineConfig) else assemble(file)
    try:
        parts.train.setup()  # the critic and the teacher have no part in this
        if checkpoint is not None:
            parts.train.load(checkpoint)
        await parts.rollout.start()
        try:
            await parts.transport.sync(parts.train, parts.rollout, 0)
            return await work(parts)
        finally:
            await parts.rollout.close()
    finally:
        parts.close()


async def _generate_with_model(spec: ModelSpec, prompt: Prompt, params: SamplingParams, *, n: int, seed: int) -> list[Sample]:
    """With the `local` rollout engine alone: no run file, no train engine."""
    from core_rl.hf.tokenizer import load_tokenizer
    from core_rl.roles.rollout import RolloutContext

    catalogue = Catalogue.discover()
    engine = build(_resolved(catalogue, "rollout_engine", "local"), RolloutContext(model=spec, seed=seed))
    workflow = build(_resolved(catalogue, "workflow", "single_turn"))
    tokenizer = load_tokenizer(spec)
    await engine.start()
    try:
        samples: list[Sample] = await workflow.run(prompt, n=n, engine=engine, tokenizer=tokenizer, params=params, seed=seed)
    finally:
        await engine.close()
    return samples


def _resolved(catalogue: Catalogue, kind: str, name: str) -> Any:
    from core_rl.plugins.references import load_reference

    found = catalogue.find(kind, name)
    config = found.component.config
    options = load_reference(config)() if config else None
    return attrs.evolve(select(kind, name), options=options, component=found.component, plugin=found.plugin)
