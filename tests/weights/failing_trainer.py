"""A trainer whose other side fails while it waits for it, run by itself: python failing_trainer.py join|update. It says why it ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from test_transport_collective import WORKER, Remote, Source

from core_rl.builtin.collective import Collective
from core_rl.builtin.config import CollectiveConfig
from core_rl.errors import RunError


class Failing(Remote):
    async def join_group(self, place):
        if self.fails == "join":
            raise RunError(self.fails)
        await super().join_group(place)

    async def update_from_group(self, specs):
        raise RunError(self.fails)


def main():
    with subprocess.Popen([sys.executable, str(WORKER)], stdin=-1, stdout=-1, text=True) as worker:
        worker.stdout.readline()
        remote = Failing(worker)
        remote.fails = sys.argv[1]
        try:
            asyncio.run(Collective(CollectiveConfig(backend="gloo", timeout_s=600.0)).sync(Source(1), remote, 1))
        except RunError as error:
            print(error)
        worker.stdin.close()


if __name__ == "__main__":
    main()
