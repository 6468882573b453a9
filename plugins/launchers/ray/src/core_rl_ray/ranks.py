"""From where Ray has put the actors to their ranks: neighbours on a node are neighbours in rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from core_rl.workers.ranks import Ranks

if TYPE_CHECKING:
    from core_rl_ray.actor import Place


def in_order(places: Sequence[Place]) -> list[int]:
    """The indices of `places` by rank: node by node, in the order in which nodes come first, on a node by GPU."""
    nodes = list(dict.fromkeys(place.node for place in places))

    def key(index: int) -> tuple[int, list[tuple[int, str]], int]:
        place = places[index]
        return nodes.index(place.node), [(len(gpu), gpu) for gpu in place.gpus], index

    return sorted(range(len(places)), key=key)


def environments(
    places: Sequence[Place], *, address: str, port: int, threads: int, env: Mapping[str, str]
) -> list[dict[str, str]]:
    """Of each rank; `places` are in the order of ranks.

    Every worker sees the GPUs of all workers on its node, so that LOCAL_RANK names its own, as under torchrun, and NCCL reaches
    the others directly. Ray shows an actor its own GPU alone. Without GPUs of its own it sees none.
    """
    found = []
    for rank, place in enumerate(places):
        before = [other for other in places[:rank] if other.node == place.node]
        here = [gpu for other in places if other.node == place.node for gpu in other.gpus]
        ranks = Ranks(rank=rank, world_size=len(places), local_rank=len(before))
        placed = {**ranks.environment(address=address, port=port), "CUDA_VISIBLE_DEVICES": ",".join(here)}
        found.append({"OMP_NUM_THREADS": str(threads), **env, **placed})
    return found
