"""A server's own options: how they reach it, and whether it knows them."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from core_rl.errors import UserError

_VARIABLE = "CORE_RL_SERVER_OPTIONS"
"""In the environment, not on the command line: a list of processes would show a key."""


def in_environment(options: Mapping[str, Any]) -> dict[str, str]:
    """For the process that is started."""
    return {_VARIABLE: json.dumps(options)}


def given_options() -> dict[str, Any] | None:
    """In that process; its own children are not told. None where no one has given any."""
    text = os.environ.pop(_VARIABLE, None)
    return None if text is None else json.loads(text)


def own_options(args: Mapping[str, Any], ours: Collection[str]) -> dict[str, Any]:
    """By their names with underscores.

    Raises:
        UserError: one of `ours` is among them, which core-rl sets itself.
    """
    for name in args:
        if name.replace("-", "_") in ours:
            message = f"rollout_engine.args.{name}: core-rl sets this itself; leave it out"
            raise UserError(message)
    return {name.replace("-", "_"): value for name, value in args.items()}


def has_gpu() -> bool:
    """Servers give their memory back on GPUs alone."""
    import torch

    return torch.cuda.is_available()


def check_names(given: Iterable[str], known: Iterable[str], engine: str) -> None:
    """Raises `UserError` for names that this version of an engine does not have: `engine` is `vLLM 0.32`."""
    names = sorted(known)
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            message = f"rollout_engine.args.{name}: {engine} has no such option{hint}"
            raise UserError(message)
