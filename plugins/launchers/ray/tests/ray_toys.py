"""What the tests put into actors. Imported there by its own name; torch only where it is used, since its import takes seconds."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

from core_rl.errors import DataError


class Toy:
    """Says where it is, and fails as it is told."""

    def __init__(self, greeting: str) -> None:
        self.greeting = greeting
        self.rank = int(os.environ["RANK"])

    def place(self):
        return self.greeting, self.rank, int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_RANK"])

    def environ(self, *names):
        return [os.environ.get(name) for name in names]

    def add(self, numbers, *, extra=0):
        return sum(numbers) + extra

    def apply(self, function, *args):
        return function(*args)

    def folder(self):
        return str(Path.cwd())

    def total(self, numbers):
        """Over all ranks, each with its own multiple."""
        import torch
        import torch.distributed as dist

        from core_rl.workers.process_group import join

        join("cpu")
        found = torch.tensor(numbers) * (self.rank + 1)
        dist.all_reduce(found)
        return found

    def count(self, upto):
        for number in range(upto):
            yield number, 10 * self.rank

    def weigh(self, data):
        return len(data)

    def fail(self, rank, kind="value"):
        """The others wait for the one that fails."""
        if self.rank == rank:
            if kind == "user":
                message = "train_engine.x: expected 1, found 2"
                raise DataError(message)
            message = "the real cause"
            raise ValueError(message)
        time.sleep(60)

    def unsendable(self, rank):
        return threading.Lock() if self.rank == rank else None

    def die_in_all_reduce(self, rank):
        """The other one has lost its peer, and says so first."""
        self.total([1.0])
        if self.rank == rank:
            os.kill(os.getpid(), signal.SIGKILL)
        self.total([1.0])

    def nap(self, seconds, path):
        Path(path).touch()
        time.sleep(seconds)
        return self.rank

    def close(self):
        self.greeting = "closed"


class Broken:
    """Cannot be made on rank 1."""

    def __init__(self) -> None:
        if os.environ["RANK"] == "1":
            message = "train_engine.tp: expected a divisor of 2, found 3"
            raise DataError(message)


class ToyEngine:
    """As much of a train engine as one begins and ends with."""

    def __init__(self, options, context):
        self.name = options

    def setup(self):
        self.pid = os.getpid()

    def describe(self):
        return {"name": self.name, "pid": self.pid}
