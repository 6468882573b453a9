"""Which process this is, among those that hold one model: torchrun's environment variables. Torch-free."""

from __future__ import annotations

import os
from collections.abc import Mapping

import attrs


@attrs.frozen(kw_only=True)
class Ranks:
    """The place of a process. `local_rank` counts those of its machine, and names its GPU."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0

    @classmethod
    def of_environment(cls) -> Ranks:
        """As a launcher or torchrun has set it; alone where nothing is set."""
        rank, world, local = (int(os.environ.get(name, default)) for name, default in _DEFAULTS.items())
        return cls(rank=rank, world_size=world, local_rank=local)

    def environment(self, *, address: str, port: int) -> Mapping[str, str]:
        """What a launcher sets in the process of this rank; `address` and `port` are those of rank 0."""
        values = dict(zip(_DEFAULTS, map(str, (self.rank, self.world_size, self.local_rank)), strict=True))
        return {**values, "MASTER_ADDR": address, "MASTER_PORT": str(port)}


_DEFAULTS = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
