"""`core-rl train`: everything around the loop, in order. Cheap checks come first, so that a mistake costs seconds."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs

from core_rl.capabilities import check_capabilities
from core_rl.config.load import load
from core_rl.config.offline import OfflineConfig
from core_rl.config.show import to_dict, to_yaml
from core_rl.errors import CheckpointError, DataError
from core_rl.loops.inspect import load_held_out
from core_rl.loops.journal import Journal
from core_rl.loops.offline import OfflinePosition, train_offline
from core_rl.loops.offline_parts import OfflineParts, assemble_offline
from core_rl.loops.offline_reference import with_references
from core_rl.loops.online import Position, train_online
from core_rl.loops.parts import assemble
from core_rl.loops.session import INTERRUPTED, Session
from core_rl.plugins.build import build
from core_rl.roles.parts import RunInfo
from core_rl.run.checkpoints import Checkpoints
from core_rl.run.directory import RunDirectory
from core_rl.run.manifest import Manifest
from core_rl.run.report import write_report
from core_rl.run.signals import Interrupts

if TYPE_CHECKING:
    from core_rl.config.run_file import RunFile
    from core_rl.loops.parts import Parts
    from core_rl.run.checkpoints import Checkpoint

Status = Literal["done", "failed", "interrupted"]


def train(path: Path, overrides: Sequence[str], *, resume: str | None) -> int:
    """Run to the end. Exit code 0, or 130 when Ctrl-C ended it after a saved step."""
    loaded = load(path, overrides)
    file, catalogue = loaded.run_file, loaded.catalogue
    check_capabilities(file)
    rows, held_out = _load_data(file)
    file = _with_steps(file, rows=len(rows))
    parts = assemble_offline(file) if isinstance(file.algorithm.options, OfflineConfig) else assemble(file)
    directory = _directory(file, resume)
    checkpoints = Checkpoints(directory.checkpoints, file.checkpoint)
    checkpoint = _checkpoint(checkpoints, directory) if resume else None
    resumed_from = checkpoint.step if checkpoint else None

    manifest = Manifest.begin(directory, file, catalogue, resumed_from=resumed_from)
    directory.write_config(to_yaml(file))
    info = RunInfo(
        name=file.run.name,
        dir=directory.path,
        config=to_dict(file),
        resumed_from=resumed_from,
        total_steps=file.run.steps,
    )
    journal = Journal([(selection.name, build(selection)) for selection in file.loggers])
    status: Status = "failed"
    hooks = catalogue.manager.hook
    with Interrupts() as interrupts:
        session = Session(
            journal=journal,
            checkpoints=checkpoints,
            hooks=hooks,
            interrupted=interrupts.requested,
            folder=directory.path,
        )
        try:
            journal.start(info)
            if isinstance(parts, OfflineParts):
                reason = _train_offline(parts, session, info, rows=rows, held_out=held_out, checkpoint=checkpoint)
            else:
                reason = asyncio.run(_train(parts, session, info, prompts=rows, held_out=held_out, checkpoint=checkpoint))
            status = "interrupted" if reason == INTERRUPTED else "done"
            if status == "done" and file.checkpoint.export_hf:
                parts.train.save_hf(directory.path / "model")
        except KeyboardInterrupt:
            status = "interrupted"
            raise
        finally:
            parts.close()
            journal.finish(status)
            manifest.end(status)
            hooks.core_rl_run_end(run=info, status=status)
    return _farewell(directory, path, reason)


async def _train(
    parts: Parts,
    session: Session,
    info: RunInfo,
    *,
    prompts: Sequence[Any],
    held_out: Sequence[Any],
    checkpoint: Checkpoint | None,
) -> str:
    start = Position(**checkpoint.state) if checkpoint else Position()
    parts.setup()
    if checkpoint is not None:
        parts.load(checkpoint.path)
    try:
        await parts.start()
        session.hooks.core_rl_run_start(run=info)
        return await train_online(parts, session, prompts=prompts, held_out=held_out, start=start)
    finally:
        await parts.stop()


def _train_offline(
    parts: OfflineParts,
    session: Session,
    info: RunInfo,
    *,
    rows: Sequence[Any],
    held_out: Sequence[Any],
    checkpoint: Checkpoint | None,
) -> str:
    parts.setup()
    if parts.precomputes_reference:
        rows = with_references(parts, session, rows, split="train", folder=info.dir)
        held_out = with_references(parts, session, held_out, split="eval", folder=info.dir)
    if checkpoint is not None:
        parts.load(checkpoint.path)
    session.hooks.core_rl_run_start(run=info)
    start = OfflinePosition(**checkpoint.state) if checkpoint else OfflinePosition()
    return train_offline(parts, session, rows=rows, held_out=held_out, start=start)


def _load_data(file: RunFile) -> tuple[Sequence[Any], Sequence[Any]]:
    rows: Sequence[Any] = build(file.data).load("train", file.run.seed)
    if len(rows) == 0:
        message = f"data: {file.data.name} has no rows to train on"
        raise DataError(message)
    return rows, load_held_out(file) if file.eval.every else ()


def _with_steps(file: RunFile, *, rows: int) -> RunFile:
    """`run.steps` as many as `run.epochs` takes, where that is given."""
    if file.run.epochs is None:
        return file
    steps = max(1, math.ceil(file.run.epochs * rows / file.run.prompts_per_step))
    return attrs.evolve(file, run=attrs.evolve(file.run, steps=steps))


def _directory(file: RunFile, resume: str | None) -> RunDirectory:
    root = Path(file.run.dir)
    if resume is None:
        return RunDirectory.create(root, file.run.name)
    if resume != "latest":
        return RunDirectory.open(Path(resume))
    return RunDirectory.latest(root, file.run.name)


def _checkpoint(checkpoints: Checkpoints, directory: RunDirectory) -> Checkpoint:
    found = checkpoints.newest_good()
    for problem in checkpoints.problems:
        print(f"core-rl: warning: {problem}", file=sys.stderr)
    if found is None:
        message = f"--resume: {directory.path} has no good checkpoint; start again without --resume"
        raise CheckpointError(message)
    print(f"Resuming from step {found.step}: {found.path}", file=sys.stderr)
    return found


def _farewell(directory: RunDirectory, path: Path, reason: str) -> int:
    if reason == INTERRUPTED:
        print(f"Stopped and saved. Go on with: core-rl train {path} --resume {directory.path}", file=sys.stderr)
        return 130
    if reason != "done":
        print(f"Stopped: {reason}", file=sys.stderr)
    print(f"Run folder: {directory.path}  Report: {write_report(directory.path)}", file=sys.stderr)
    return 0
