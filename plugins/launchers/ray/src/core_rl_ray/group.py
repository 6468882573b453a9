"""A group of workers that are Ray actors."""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from core_rl.errors import UserError
from core_rl.workers.calls import GroupCalls
from core_rl.workers.group import Failure, Gather, first_cause
from core_rl.workers.worker import Reply, Request
from core_rl_ray.actor import RayWorker
from core_rl_ray.failures import answer
from core_rl_ray.messages import Message, pack, unpack
from core_rl_ray.placement import reserve
from core_rl_ray.ranks import environments, in_order

if TYPE_CHECKING:
    from core_rl_ray.actor import Place
    from core_rl_ray.cluster import Cluster
    from core_rl_ray.placement import Wish

_SETTLE_S = 2.0
"""After the first failure: so long the others may tell theirs, one of which may be the cause."""
_SETTLE_WITHOUT_CAUSE_S = 15.0
"""The same, while all that is known are ranks that have lost another one."""


class RayGroup(GroupCalls):
    """A `core_rl.workers.group.WorkerGroup`. The actors start at once."""

    def __init__(self, cluster: Cluster, wish: Wish, *, env: Mapping[str, str], wait_s: float) -> None:
        import ray
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        self.world_size = wish.workers
        self._actors: list[Any] = []
        self._places: list[Place] = []
        self._room = reserve(wish, cluster, wait_s=wait_s)
        actor = ray.remote(RayWorker)
        for index in range(wish.workers):
            where = PlacementGroupSchedulingStrategy(placement_group=self._room, placement_group_bundle_index=index)
            settings = {
                "num_cpus": wish.bundle["CPU"],
                "num_gpus": int(wish.cuda),
                "scheduling_strategy": where,
                "max_restarts": 0,
            }
            self._actors.append(actor.options(**settings).remote(sys.path, os.getcwd()))  # noqa: PTH109 - it travels as text
        self._take_ranks(env, threads=wish.cpus)

    def _take_ranks(self, env: Mapping[str, str], *, threads: int) -> None:
        places = self._gathered([actor.place.remote() for actor in self._actors], doing="starting")
        order = in_order(places)
        self._actors, self._places = [self._actors[index] for index in order], [places[index] for index in order]
        address = self._places[0].address
        (port,) = self._gathered([self._actors[0].free_port.remote(address)], doing="starting")
        own = environments(self._places, address=address, port=port, threads=threads, env=env)
        self._gathered([actor.begin.remote(rank, own[rank]) for rank, actor in enumerate(self._actors)], doing="starting")

    @property
    def alive(self) -> bool:
        return bool(self._actors)

    def close(self) -> None:
        import ray
        from ray.util import remove_placement_group

        if self._actors and ray.is_initialized():
            for actor in self._actors:
                ray.kill(actor)
            remove_placement_group(self._room)
        self._actors = []

    def _exchange(self, requests: Sequence[Request], gather: Gather, *, doing: str) -> Any:
        """What is for all ranks is put into the object store once."""
        import ray

        stored = [ray.put(_packed(request)) for request in requests]
        sent = [
            actor.run.remote(stored[rank if len(stored) > 1 else 0], fetch=gather.wants(rank))
            for rank, actor in enumerate(self._actors)
        ]
        replies = self._gathered(sent, doing=doing)
        return gather([None if reply.result is None else unpack(reply.result) for reply in replies])

    def _gathered(self, references: Sequence[Any], *, doing: str) -> list[Any]:
        """What the actors answer, in the order of `references`. The first failure ends the group."""
        import ray

        answers: list[Any] = [None] * len(references)
        waiting = {reference: index for index, reference in enumerate(references)}
        failures: list[Failure] = []
        failed_at = 0.0
        while waiting:
            left = None if not failures else max(0.0, failed_at + _patience(failures) - time.monotonic())
            ready, _ = ray.wait(list(waiting), timeout=left)
            if not ready:
                break
            index = waiting.pop(ready[0])
            answers[index] = answer(ready[0], index, self._places[index] if self._places else None)
            if isinstance(answers[index], Reply) and answers[index].failure is not None:
                failed_at = failed_at if failures else time.monotonic()
                failures.append(answers[index].failure)
        if failures:
            self.close()  # those that wait for the one that failed would wait for ever
            raise first_cause(failures).error(doing)
        return answers


def _patience(failures: Sequence[Failure]) -> float:
    return _SETTLE_WITHOUT_CAUSE_S if all(failure.follows for failure in failures) else _SETTLE_S


def _packed(request: Request) -> Message:
    try:
        return pack(request)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        message = f"launcher: cannot send {request.operation} to the workers: {error}; what they are given must pickle"
        raise UserError(message) from error
