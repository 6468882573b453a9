from __future__ import annotations

import csv
from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class CsvConfig:
    columns: tuple[str, ...] = attrs.field(default=("reward/mean",), metadata={"help": "metrics to write"})


class CsvLogger:
    def __init__(self, options: CsvConfig) -> None:
        self.columns = options.columns
        self.samples = 0

    def start(self, run: Any) -> None:
        self.file = open(run.dir / "metrics.csv", "a", newline="")
        self.writer = csv.writer(self.file)
        self.writer.writerow(["step", *self.columns])

    def log(self, step: int, metrics: Any) -> None:
        self.writer.writerow([step, *(metrics.get(name, "") for name in self.columns)])

    def log_samples(self, step: int, rows: Any) -> None:
        self.samples += len([row for row in rows if row["reward"] is not None])

    def finish(self, status: str) -> None:
        self.writer.writerow([status, self.samples])
        self.file.close()
