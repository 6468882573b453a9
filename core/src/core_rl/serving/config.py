"""Options that engines of servers have in common. Torch-free."""

from __future__ import annotations

from typing import Any

import attrs

_above: Any = attrs.validators.gt
_at_least: Any = attrs.validators.ge


@attrs.frozen(kw_only=True)
class PoolConfig:
    """How servers are started, watched and spared."""

    url: tuple[str, ...] = attrs.field(
        default=(), metadata={"help": "servers that run already, http://host:port each; empty: start them"}
    )
    servers: int = attrs.field(default=1, validator=_at_least(1), metadata={"help": "how many are started"})
    env: dict[str, str] = attrs.field(factory=dict, metadata={"help": "environment of the started servers, over this one's"})
    log_dir: str | None = attrs.field(default=None, metadata={"help": "where their logs go; null: a temporary folder"})
    api_key: str | None = attrs.field(
        default=None,
        metadata={"help": "sent as a bearer token to every server, and asked for by those that are started", "secret": True},
    )
    start_timeout_s: float = attrs.field(
        default=600.0, validator=_above(0.0), metadata={"help": "seconds until a server that is not ready has failed"}
    )
    request_timeout_s: float = attrs.field(
        default=1800.0,
        validator=_above(0.0),
        metadata={"help": "seconds until a request without an answer goes to another server"},
    )
    sleep: bool = attrs.field(
        default=False,
        metadata={"help": "servers give their memory to the trainer while it trains, where they share a GPU with it"},
    )
    retries: int = attrs.field(
        default=3, validator=_at_least(0), metadata={"help": "how often a request is tried again when its server is lost"}
    )
    restarts: int = attrs.field(
        default=1, validator=_at_least(0), metadata={"help": "how often a started server that ended is started again"}
    )
    health_every_s: float = attrs.field(
        default=5.0, validator=_above(0.0), metadata={"help": "seconds between two looks at every server"}
    )
    wait_for_server_s: float = attrs.field(
        default=60.0, validator=_at_least(0.0), metadata={"help": "seconds that requests wait for a server while there is none"}
    )


@attrs.frozen(kw_only=True)
class ServerConfig(PoolConfig):
    """Of servers that speak HTTP."""

    python: str | None = attrs.field(
        default=None,
        metadata={
            "help": "the Python that runs the servers, of an environment with the backend and this plugin; null takes this one"
        },
    )
    host: str = attrs.field(default="127.0.0.1", metadata={"help": "the address that started servers listen at"})
