"""Where engines of a suite live: one group of worker processes for each number of ranks, for all checks."""

from __future__ import annotations

import itertools
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core_rl.workers.local_group import LocalGroup
from core_rl.workers.train_engine import RemoteTrainEngine

if TYPE_CHECKING:
    from core_rl.testing.train_engine.setting import Setting
    from core_rl.testing.train_engine.subject import Subject


class Bench:
    """Groups of workers that begin when they are first needed; a folder for checkpoints. Several subjects may share one.

    `threads` of each worker; None: the cores of the machine over the workers.
    """

    def __init__(self, *, prepare: str | None = None, modules: Path | None = None, threads: int | None = 1) -> None:
        self._prepare = prepare
        self._threads = threads
        self._groups: dict[int, LocalGroup] = {}
        self._numbers = itertools.count()
        self._folder = tempfile.TemporaryDirectory(prefix="core-rl-conformance-")
        if modules is not None and str(modules) not in sys.path:
            sys.path.append(str(modules))  # spawned processes get this list

    def engine(self, subject: Subject, setting: Setting, world_size: int) -> RemoteTrainEngine:
        """A new engine, set up."""
        engine = RemoteTrainEngine(
            lambda: self.group(world_size),
            f"engine-{next(self._numbers)}",
            subject.component,
            subject.engine_options(setting),
            subject.context(setting),
        )
        engine.setup()
        return engine

    def group(self, world_size: int) -> LocalGroup:
        if world_size not in self._groups:
            group = LocalGroup(world_size, threads=self._threads)
            self._groups[world_size] = group
            if self._prepare is not None:
                group.create("prepare", ("prepare", self._prepare, None))
        return self._groups[world_size]

    def give_up(self, world_size: int) -> None:
        """After an error in a worker, which is the end of its group."""
        group = self._groups.pop(world_size, None)
        if group is not None:
            group.close()

    def new_folder(self) -> Path:
        path = Path(self._folder.name) / str(next(self._numbers))
        path.mkdir()
        return path

    def close(self) -> None:
        for world_size in list(self._groups):
            self.give_up(world_size)
        self._folder.cleanup()


def every_rank(engine: RemoteTrainEngine, method: str, *args: Any) -> list[Any]:
    """What each rank returns of a call, not only the first."""
    from core_rl.workers.group import Every

    found: list[Any] = engine.group.call(engine.key, method, *args, gather=Every())
    return found
