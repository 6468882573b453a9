"""Room in the cluster for the workers of a group: asked for, waited for, and named where it is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from core_rl.errors import UserError

if TYPE_CHECKING:
    from core_rl_ray.cluster import Cluster
    from core_rl_ray.config import RayLauncherConfig

_UNCOUNTED = 0.001
"""CPUs: a bundle has to ask for something."""


@attrs.frozen(kw_only=True)
class Wish:
    """What a group of workers asks for."""

    workers: int
    cpus: int
    cuda: bool
    strategy: str
    own: bool
    """The cluster is the run's own: nobody else is there, and CPUs are not counted, as with the launcher `local`."""

    @classmethod
    def of(cls, options: RayLauncherConfig, cluster: Cluster) -> Wish:
        gpus = cluster.gpus()
        cuda = options.device == "cuda" or (options.device == "auto" and gpus > 0)
        workers = options.workers or (max(1, gpus) if cuda else 1)
        return cls(workers=workers, cpus=options.cpus_per_worker, cuda=cuda, strategy=options.strategy, own=cluster.own)

    @property
    def bundle(self) -> dict[str, float]:
        """Of one worker."""
        return {"CPU": _UNCOUNTED if self.own else self.cpus, **({"GPU": 1} if self.cuda else {})}

    @property
    def counted(self) -> list[str]:
        """The resources of which a cluster may have too little."""
        return [name for name in self.bundle if name != "CPU" or not self.own]

    def __str__(self) -> str:
        amounts = _amounts({name: self.bundle[name] for name in self.counted})
        each = f" with {amounts} each" if amounts else ""
        return f"{_count(self.workers, 'worker')}{each}, strategy {self.strategy}"


def reserve(wish: Wish, cluster: Cluster, *, wait_s: float) -> Any:
    """A placement group with one bundle for each worker.

    Raises:
        UserError: no room within `wait_s`; at once where the cluster is the run's own, which does not grow.
    """
    import ray
    from ray.util import placement_group, remove_placement_group

    if wish.own and not _fits(wish, cluster):
        raise UserError(_refusal(wish, cluster, "there is no room"))
    group = placement_group([wish.bundle] * wish.workers, strategy=wish.strategy)
    if not group.wait(wait_s):
        free = {name: ray.available_resources().get(name, 0.0) for name in wish.counted}
        remove_placement_group(group)
        raise UserError(_refusal(wish, cluster, f"no room within {wait_s:g} s", free=free))
    return group


def _fits(wish: Wish, cluster: Cluster) -> bool:
    """On one node."""
    (node,) = cluster.nodes()
    if wish.strategy == "STRICT_SPREAD" and wish.workers > 1:
        return False
    return all(node.get(name, 0.0) >= wish.workers * amount for name, amount in wish.bundle.items())


def _refusal(wish: Wish, cluster: Cluster, what: str, *, free: dict[str, float] | None = None) -> str:
    nodes = cluster.nodes()
    total = {name: sum(node.get(name, 0.0) for node in nodes) for name in wish.counted}
    most = {name: max((node.get(name, 0.0) for node in nodes), default=0.0) for name in wish.counted}
    has = f"the cluster has {_count(len(nodes), 'node')}" + (f" with {_amounts(total)}" if total else "")
    if len(nodes) > 1:
        has += f" (a node at most {_amounts(most)})"
    if free is not None:
        has += f", of which {_amounts(free)} free"
    mend = "lower launcher.workers" + ("" if wish.own else " or launcher.cpus_per_worker")
    if wish.cuda:
        mend += ", or take device: cpu"
    if wish.strategy.startswith("STRICT_"):
        mend += f", or strategy: {wish.strategy.removeprefix('STRICT_')}"
    return f"launcher: {what} for {wish}; {has}: {mend}"


def _amounts(resources: dict[str, float]) -> str:
    return " and ".join(f"{round(amount, 2):g} {name}" for name, amount in resources.items())


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("s" if number != 1 else "")
