"""The logger that writes files: `metrics.jsonl`, a row for each step, and `samples/step-000010.jsonl`, a row for each completion.

Strict JSON: a float that is not finite is `null`, and in `metrics.jsonl` the key `nonfinite` says which it was.
A resumed run goes on in the same files; rows of steps that it repeats are cut away first.
"""

from __future__ import annotations

import json
import math
import numbers
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

from core_rl.run.files import write_atomically

if TYPE_CHECKING:
    from core_rl.builtin.config import JsonlConfig
    from core_rl.roles.parts import RunInfo


class Jsonl:
    """Each row is handed to the operating system as soon as it is there: a killed process loses none."""

    def __init__(self, options: JsonlConfig) -> None:
        self._fsync = options.fsync
        self._metrics: TextIO | None = None
        self._samples = Path()

    def start(self, run: RunInfo) -> None:
        metrics = run.dir / "metrics.jsonl"
        self._samples = run.dir / "samples"
        self._samples.mkdir(parents=True, exist_ok=True)
        last = -1 if run.resumed_from is None else run.resumed_from
        _cut_metrics(metrics, last)
        _cut_samples(self._samples, last)
        self._metrics = metrics.open("a", encoding="utf-8")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        assert self._metrics is not None
        values = {name: float(value) for name, value in metrics.items()}
        odd = {name: str(value) for name, value in values.items() if not math.isfinite(value)}
        row: dict[str, Any] = {"step": step, "time": round(time.time(), 3), **values, **dict.fromkeys(odd)}
        if odd:
            row["nonfinite"] = odd
        self._write(self._metrics, [row])

    def log_samples(self, step: int, rows: Sequence[Mapping[str, Any]]) -> None:
        with (self._samples / f"step-{step:06d}.jsonl").open("a", encoding="utf-8") as file:
            self._write(file, [{"step": step, **row} for row in rows])

    def finish(self, status: Literal["done", "failed", "interrupted"]) -> None:
        del status  # the manifest has it
        if self._metrics is not None:
            self._metrics.flush()
            os.fsync(self._metrics.fileno())
            self._metrics.close()
            self._metrics = None

    def _write(self, file: TextIO, rows: Sequence[Mapping[str, Any]]) -> None:
        file.writelines(json.dumps(_strict(row), ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
        file.flush()
        if self._fsync:
            os.fsync(file.fileno())


def _strict(value: Any) -> Any:
    """What JSON can say of a value: floats that are not finite become None, unknown objects their text."""
    if isinstance(value, Mapping):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return value if value is None or isinstance(value, bool) else _scalar(value)


def _scalar(value: Any) -> int | float | str | None:
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else None
    return str(value).encode("utf-8", "backslashreplace").decode()  # half a surrogate pair is no UTF-8


def _cut_metrics(path: Path, last: int) -> None:
    """Keep the rows up to step `last`; a line that a crash cut short goes too."""
    if not path.exists():
        return
    lines = path.read_text(encoding="utf-8").split("\n")
    kept = [line for line in lines if (step := _step(line)) is not None and step <= last]
    write_atomically(path, "".join(line + "\n" for line in kept))


def _cut_samples(folder: Path, last: int) -> None:
    for path in folder.glob("step-*.jsonl"):
        number = path.stem.removeprefix("step-")
        if number.isdecimal() and int(number) > last:
            path.unlink()


def _step(line: str) -> int | None:
    try:
        step = json.loads(line)["step"]
    except (ValueError, KeyError, TypeError):
        return None
    return step if isinstance(step, int) else None
