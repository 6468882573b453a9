"""Reading a run's folder back: what its loggers and its manifest wrote. Torch-free."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import attrs

from core_rl.run.directory import RunDirectory

Row = Mapping[str, Any]
Points = list[tuple[float, float]]


@attrs.frozen(kw_only=True)
class RunRecord:
    """A run as its files tell it. What was never written is empty."""

    directory: RunDirectory
    metrics: Sequence[Row]
    manifest: Row
    config: str

    @classmethod
    def read(cls, path: Path) -> Self:
        """Raises `CheckpointError` when the folder is no run's."""
        directory = RunDirectory.open(path)
        return cls(
            directory=directory,
            metrics=list(_rows(directory.metrics)),
            manifest=_manifest(directory.manifest),
            config=directory.config.read_text(encoding="utf-8"),
        )

    @property
    def names(self) -> list[str]:
        """Every metric, in the order of first appearance."""
        return list(dict.fromkeys(name for row in self.metrics for name in row))

    def series(self, name: str) -> Points:
        """(step, value) of every step that has a finite value of this metric."""
        return [(row["step"], row[name]) for row in self.metrics if row.get(name) is not None]

    def samples(self, split: str) -> dict[int, list[Row]]:
        """The logged completions of a split, by step."""
        found: dict[int, list[Row]] = {}
        for path in sorted(self.directory.samples.glob("step-*.jsonl")):
            for row in _rows(path):
                if row.get("split") == split:
                    found.setdefault(row["step"], []).append(row)
        return dict(sorted(found.items()))


def first_and_last(points: Points, share: float = 0.2) -> tuple[float, float] | None:
    """The means of the first and the last fifth of a series."""
    if not points:
        return None
    count = max(1, int(len(points) * share))
    values = [value for _, value in points]
    return sum(values[:count]) / count, sum(values[-count:]) / count


def _rows(path: Path) -> Iterator[Row]:
    """The rows of a file; one that a crash cut short is left out."""
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8").split("\n"):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("step"), int):
            yield row


def _manifest(path: Path) -> Row:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
