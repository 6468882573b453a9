"""Checks of launchers: `core_rl.roles.parts.Launcher`, with engines that tell what they were built with."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psutil

from core_rl.errors import ModelError
from core_rl.plugins.objects import object_component
from core_rl.roles.rollout import RolloutContext
from core_rl.roles.train import TrainContext
from core_rl.testing.kinds.launched import ToldConfig
from core_rl.testing.kit.check import checks, expect, shown
from core_rl.testing.rollout_engine.bench import MODEL

if TYPE_CHECKING:
    from core_rl.testing.kit.subject import Subject

_TRAIN = object_component("train_engine", "core_rl.testing.kinds.launched:ToldTrainEngine")
_ROLLOUT = object_component("rollout_engine", "core_rl.testing.kinds.launched:ToldRolloutEngine")
_PATIENCE_S = 20.0


def builds_a_train_engine(subject: Subject) -> None:
    """A train engine gets its options and its context; its methods and streams answer; `close` of the engine reaches it."""
    launcher, folder = subject.keep(_launched), subject.folder()
    engine = launcher.train_engine(_TRAIN, ToldConfig(word=str(folder)), _context(seed=11))
    engine.setup()
    facts = engine.describe()
    expect(facts["word"] == str(folder), f"the option word is {facts['word']!r} in the engine, expected {str(folder)!r}")
    expect(facts["seed"] == 11, f"the context's seed is {facts['seed']!r} in the engine, expected 11")
    weights = {name: float(tensor.sum()) for name, tensor in engine.export_weights()}
    words = f"export_weights gave {shown(weights)}, expected three tensors as the engine yields them"
    expect(weights == {"weight.0": 0.0, "weight.1": 2.0, "weight.2": 4.0}, words)
    engine.save(folder)
    expect((folder / "saved").is_file(), "save(path) did not reach the engine")
    engine.close()
    expect((folder / "closed").is_file(), "close() did not reach the engine")


def several_train_engines(subject: Subject) -> None:
    """Two train engines of one run, a policy and a critic, are two."""
    launcher, folder, other = subject.keep(_launched), subject.folder(), subject.folder()
    engines = [
        launcher.train_engine(_TRAIN, ToldConfig(word=str(path)), _context(seed=seed))
        for seed, path in enumerate((folder, other))
    ]
    for engine in engines:
        engine.setup()
    seeds = [engine.describe()["seed"] for engine in engines]
    expect(seeds == [0, 1], f"the seeds of two engines are {seeds}, expected [0, 1]")
    for engine in engines:
        engine.close()


def builds_a_rollout_engine(subject: Subject) -> None:
    """A rollout engine gets its options and its context, and is not started by the launcher."""
    engine = subject.keep(_launched).rollout_engine(_ROLLOUT, ToldConfig(word="hello"), RolloutContext(model=MODEL, seed=12))
    expect(engine.stats()["seed"] == 12.0, "the context's seed does not reach the rollout engine")

    async def live() -> None:
        await engine.start()
        await engine.close()

    asyncio.run(live())
    calls = getattr(engine, "calls", ["start hello", "close"])
    expect(
        calls == ["start hello", "close"],
        f"the rollout engine was called as {calls}, expected start and close once, with its options",
    )


def errors_arrive(subject: Subject) -> None:
    """What an engine raises arrives as it is: the same kind of error, with its words."""
    with _launched(subject) as launcher:  # one of its own: workers may end with an engine that failed
        folder = subject.folder()
        engine = launcher.train_engine(_TRAIN, ToldConfig(word=str(folder), fails=True), _context(seed=1))
        try:
            engine.setup()
        except ModelError as error:
            expect(str(folder) in str(error), f"the engine's error arrived as {error}, without its words")
        else:
            expect(holds=False, words="setup of the engine raised ModelError, and nothing arrived")
        engine.close()


def closes(subject: Subject) -> None:
    """`close` ends every process that was started, may be called twice, and without an engine."""
    before = _children()
    subject.build().close()
    with _launched(subject) as launcher:
        folder = subject.folder()
        engine = launcher.train_engine(_TRAIN, ToldConfig(word=str(folder)), _context(seed=1))
        engine.setup()
        pid = engine.describe()["pid"]
        engine.close()
        engine.close()
        launcher.close()
        launcher.close()
        gc.collect()
        end = time.monotonic() + _PATIENCE_S
        while (_alive(pid, before) or _children() - before) and time.monotonic() < end:
            time.sleep(0.1)
        left = sorted(_children() - before)
        expect(not left, f"after close() {len(left)} processes still run: {', '.join(name for _, name in left)}")


@contextmanager
def _launched(subject: Subject) -> Iterator[Any]:
    launcher = subject.build()
    try:
        yield launcher
    finally:
        launcher.close()


def _context(*, seed: int) -> TrainContext:
    return TrainContext(model=MODEL, seed=seed, total_steps=1)


def _children() -> set[tuple[int, str]]:
    found: set[tuple[int, str]] = set()
    for child in psutil.Process().children(recursive=True):
        try:
            # helpers of multiprocessing live as long as this process does
            if child.status() != psutil.STATUS_ZOMBIE and "resource_tracker" not in " ".join(child.cmdline()):
                found.add((child.pid, child.name()))
        except psutil.Error:
            continue
    return found


def _alive(pid: int, before: set[tuple[int, str]]) -> bool:
    return pid != os.getpid() and pid not in {number for number, _ in before} and psutil.pid_exists(pid)


CHECKS = checks(builds_a_train_engine, several_train_engines, builds_a_rollout_engine, errors_arrive, closes)
