"""What the tests put into workers. Imported there by its own name."""

from __future__ import annotations

import os
import signal
import time

import torch
import torch.distributed as dist

from core_rl.errors import DataError
from core_rl.workers.process_group import join


class Toy:
    """Says where it is, and fails as it is told."""

    def __init__(self, greeting: str) -> None:
        self.greeting = greeting
        self.rank = int(os.environ["RANK"])

    def place(self) -> tuple[str, int, int]:
        return self.greeting, self.rank, int(os.environ["WORLD_SIZE"])

    def add(self, numbers, *, extra=0):
        return sum(numbers) + extra

    def total(self, tensor):
        """Over all ranks."""
        join("cpu")
        tensor = tensor * (self.rank + 1)
        dist.all_reduce(tensor)
        return tensor

    def count(self, upto):
        for number in range(upto):
            yield number, torch.full((1000,), float(number + 10 * self.rank))

    def fail(self, rank, kind="value"):
        """The others wait for the one that fails."""
        if self.rank == rank:
            if kind == "user":
                message = "train_engine.x: expected 1, found 2"
                raise DataError(message)
            message = "the real cause"
            raise ValueError(message)
        dist.barrier() if dist.is_initialized() else time.sleep(60)

    def die(self, rank):
        if self.rank == rank:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)

    def rest(self, seconds):
        time.sleep(seconds)

    def leave(self):
        os._exit(3)

    def close(self):
        self.greeting = "closed"
