"""Options of the launcher `ray`. Without Ray."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import attrs

_HOST_AND_PORT = re.compile(r"[^\s:/]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}")


def _check_address(_: RayLauncherConfig, __: attrs.Attribute[Any], value: str | None) -> None:
    if value is None or value == "auto" or _HOST_AND_PORT.fullmatch(value):
        return
    if value.startswith("ray://"):
        message = (
            f"expected auto or host:port, found {value!r}: Ray's client protocol moves every batch through a proxy; start the run on "
            "a node of the cluster, with address: auto"
        )
    elif value == "local":
        message = "expected auto or host:port, found 'local': a cluster of its own is address: null"
    else:
        message = f"expected auto or host:port, as 10.0.0.1:6379, found {value!r}"
    raise ValueError(message)


def _check_own_cluster(config: RayLauncherConfig, __: attrs.Attribute[Any], value: int | None) -> None:
    if value is not None and config.address is not None:
        message = f"is for a cluster that the run starts, and address is {config.address}: take object_store_mb away"
        raise ValueError(message)


@attrs.frozen(kw_only=True)
class RayLauncherConfig:
    """Where the workers run and what each has."""

    workers: int | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.ge(1)),
        metadata={
            "help": "actors that hold each train engine together; null: one for each GPU of the cluster, one without GPUs"
        },
    )
    device: Literal["auto", "cpu", "cuda"] = attrs.field(
        default="auto",
        metadata={"help": "cuda gives each worker one GPU, cpu hides them; auto: cuda where the cluster has GPUs"},
    )
    address: str | None = attrs.field(
        default=None,
        validator=_check_address,
        metadata={
            "help": "null starts a cluster on this machine, which ends with the run; auto or host:port joins one that is there"
        },
    )
    namespace: str | None = attrs.field(default=None, metadata={"help": "Ray's namespace of the actors; null: one of its own"})
    cpus_per_worker: int = attrs.field(
        default=1,
        validator=attrs.validators.ge(1),
        metadata={"help": "CPUs that Ray keeps for each worker; also the threads of its computations on the CPU"},
    )
    strategy: Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"] = attrs.field(
        default="PACK",
        metadata={"help": "workers on as few nodes as possible (PACK) or as many (SPREAD); STRICT_: on one node, on one each"},
    )
    wait_s: float = attrs.field(
        default=60.0,
        validator=attrs.validators.gt(0.0),
        metadata={"help": "seconds to wait for room in the cluster; raise it where nodes are added on demand"},
    )
    env: Mapping[str, str] = attrs.field(factory=dict, metadata={"help": "environment variables of the workers"})
    object_store_mb: int | None = attrs.field(
        default=None,
        validator=[attrs.validators.optional(attrs.validators.ge(80)), _check_own_cluster],
        metadata={"help": "shared memory of a cluster that the run starts; null: Ray's own choice, 30 % of the memory"},
    )
    worker_output: bool = attrs.field(
        default=False, metadata={"help": "also print what workers print; Ray's log folder always has it"}
    )
