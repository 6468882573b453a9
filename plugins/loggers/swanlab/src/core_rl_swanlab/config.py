"""Options of the logger `swanlab`."""

from __future__ import annotations

from typing import Literal

import attrs


@attrs.frozen(kw_only=True)
class SwanLabConfig:
    """Where the run is tracked, and under which names."""

    mode: Literal["cloud", "local", "offline", "disabled"] = attrs.field(
        default="cloud",
        metadata={
            "help": "cloud sends as it runs; local is for `swanlab watch`; offline is sent later by `swanlab sync`; disabled writes nothing"
        },
    )
    project: str = attrs.field(default="core-rl", metadata={"help": "the project that the run belongs to"})
    workspace: str | None = attrs.field(default=None, metadata={"help": "the user or organisation; null takes the key's owner"})
    experiment_name: str | None = attrs.field(default=None, metadata={"help": "the run's name there; null takes run.name"})
    description: str | None = attrs.field(default=None, metadata={"help": "a note on the run"})
    group: str | None = attrs.field(default=None, metadata={"help": "runs of one group stand together"})
    tags: tuple[str, ...] = attrs.field(default=(), metadata={"help": "labels to find the run by"})
    logdir: str | None = attrs.field(
        default=None, metadata={"help": "the folder of its files; null: swanlab/ in the run's own"}
    )
    api_key: str | None = attrs.field(
        default=None,
        repr=False,
        metadata={"help": "write ${SWANLAB_API_KEY}; null: what SWANLAB_API_KEY or `swanlab login` says", "secret": True},
    )
    host: str | None = attrs.field(default=None, metadata={"help": "the address of a SwanLab server of your own"})
    samples: int = attrs.field(
        default=16, validator=attrs.validators.ge(0), metadata={"help": "completions of a table that are sent; 0 none"}
    )
    hardware: bool = attrs.field(default=True, metadata={"help": "also track load, memory and devices"})
    terminal: bool = attrs.field(default=False, metadata={"help": "also keep what is printed"})
