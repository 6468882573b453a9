"""SGLang's own options: what core-rl sets of them, and how the rest is given to the installed version."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from core_rl.errors import UserError
from core_rl.serving.options import check_names, has_gpu, own_options

if TYPE_CHECKING:
    import argparse

    from core_rl.roles.rollout import RolloutContext
    from core_rl_sglang.config import SglangConfig

OURS = frozenset({"model_path", "model", "tokenizer_path", "host", "port", "api_key", "weight_version", "skip_tokenizer_init"})
"""What is told elsewhere in the run file, or must be as it is."""
_RESERVED = 2
"""SGLang ends a sequence so many tokens before its context does."""


def server_arguments(options: SglangConfig, context: RolloutContext, folder: str, longest: int) -> dict[str, Any]:
    """What a server is started with.

    Raises:
        UserError: `args` sets what the run file says elsewhere.
    """
    given = own_options(options.args, OURS)
    found: dict[str, Any] = {
        "model_path": folder,
        "dtype": context.model.dtype,
        "random_seed": context.seed % 2**31,
        "trust_remote_code": context.model.trust_remote_code,
        "context_length": longest + _RESERVED,
    }
    if options.sleep and has_gpu():
        found |= {"enable_memory_saver": True, "enable_weights_cpu_backup": True}
    return found | given


def as_flags(arguments: Mapping[str, Any], parser: argparse.ArgumentParser, version: str) -> list[str]:
    """As SGLang's command line has them.

    Raises:
        UserError: this version does not have an option.
    """
    actions = {action.dest: action for action in parser._actions}  # noqa: SLF001 - argparse has no public list
    flags = {flag.removeprefix("--").replace("-", "_"): action for action in actions.values() for flag in action.option_strings}
    known = {**flags, **actions}
    check_names(arguments, known, f"SGLang {version}")
    found: list[str] = []
    for name, value in arguments.items():
        found += _flag(known[name], name, value)
    return found


def _flag(action: argparse.Action, name: str, value: Any) -> Iterable[str]:
    flag = next(flag for flag in action.option_strings if flag.startswith("--"))
    if value is None:
        return []
    if action.nargs == 0:  # on by its name alone
        negative = [flag for flag in action.option_strings if flag.startswith("--no-")]
        if not isinstance(value, bool):
            message = f"rollout_engine.args.{name}: expected true or false, found {value!r}"
            raise UserError(message)
        return [flag] if value else negative[:1]
    if isinstance(value, list | tuple):
        return [flag, *(str(each) for each in value)]
    return [flag, json.dumps(value) if isinstance(value, Mapping) else str(value)]
