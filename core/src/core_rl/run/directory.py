"""The folder of a run: `<root>/<name>/<time>/`, and `<root>/<name>/latest` that leads to the newest one."""

from __future__ import annotations

import itertools
import os
import re
import time
from pathlib import Path
from typing import Self

import attrs

from core_rl.errors import CheckpointError, RunError
from core_rl.run.files import write_atomically

_LATEST = "latest"


@attrs.frozen
class RunDirectory:
    """Where everything of one run stands."""

    path: Path

    @classmethod
    def create(cls, root: Path, name: str) -> Self:
        """A new empty folder, named after the time.

        Raises:
            RunError: it cannot be made there.
        """
        parent = root / safe_name(name)
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S")
        try:
            parent.mkdir(parents=True, exist_ok=True)
            path = _new_folder(parent, stamp)
            _point_latest(parent, path.name)
        except OSError as error:
            message = f"run.dir: no folder can be made in {parent}: {error.strerror or error}; choose another run.dir"
            raise RunError(message) from error
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> Self:
        """An existing run's folder.

        Raises:
            CheckpointError: it is none.
        """
        if not (path / "config.yaml").is_file():
            what = "has no config.yaml, so it is no run folder" if path.is_dir() else "is no folder"
            message = f"{path} {what}; run folders are <run.dir>/<run.name>/<time>"
            raise CheckpointError(message)
        return cls(path.resolve())

    @classmethod
    def latest(cls, root: Path, name: str) -> Self:
        """The newest run of this name.

        Raises:
            CheckpointError: there is none.
        """
        parent = root / safe_name(name)
        link = parent / _LATEST
        path = parent / link.read_text(encoding="utf-8").strip() if link.is_file() else link
        if not path.is_dir():
            message = f"--resume: there is no run named {name} in {root}; start it without --resume, or give a run's folder"
            raise CheckpointError(message)
        return cls.open(path)

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def manifest(self) -> Path:
        return self.path / "manifest.json"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def samples(self) -> Path:
        return self.path / "samples"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    def write_config(self, text: str) -> None:
        """The resolved run file."""
        write_atomically(self.config, text)


def safe_name(name: str) -> str:
    """A run's name as the name of a folder: letters, digits, dot, dash and underscore; no dot at either end."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-.")[:100] or "run"


def _new_folder(parent: Path, stamp: str) -> Path:
    """Runs that start within one second, also in several processes, each get a folder of their own."""
    for number in itertools.count(1):
        path = parent / (stamp if number == 1 else f"{stamp}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise AssertionError


def _point_latest(parent: Path, name: str) -> None:
    """A link, or a file with the name in it where links are not possible."""
    temporary = parent / f".{_LATEST}-{os.getpid()}"
    temporary.unlink(missing_ok=True)
    try:
        temporary.symlink_to(name, target_is_directory=True)
    except (OSError, NotImplementedError):
        temporary.write_text(name + "\n", encoding="utf-8")
    temporary.replace(parent / _LATEST)
