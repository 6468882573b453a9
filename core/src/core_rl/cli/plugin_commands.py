"""Commands that plugins add with `core_rl_add_commands`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from core_rl.errors import UserError
from core_rl.plugins.catalogue import Catalogue
from core_rl.suggest import did_you_mean

if TYPE_CHECKING:
    import pluggy

Commands = Any
"""What `ArgumentParser.add_subparsers` returns."""


def run(name: str, parser: argparse.ArgumentParser, commands: Commands, arguments: list[str]) -> int:
    """Run a command that the core does not have.

    Raises:
        UserError: no plugin has it either.
    """
    owners = add_plugin_commands(Catalogue.discover().manager, commands)
    if name not in owners:
        message = f"there is no command {name!r}{did_you_mean(name, commands.choices)} (core-rl --help lists the commands)"
        raise UserError(message)
    args = parser.parse_args(arguments)
    if not callable(getattr(args, "run", None)):
        message = f"the command {name!r} of the plugin {owners[name]} sets no function `run`: tell its authors"
        raise UserError(message)
    code: int = args.run(args)
    return code


def add_plugin_commands(manager: pluggy.PluginManager, commands: Commands) -> dict[str, str]:
    """Let every plugin add its commands; the plugin of each new command. One that fails costs a warning (see `lifecycle`)."""
    owners: dict[str, str] = {}
    for implementation in manager.hook.core_rl_add_commands.get_hookimpls():
        before = set(commands.choices)
        implementation.function(commands)
        owners.update(dict.fromkeys(set(commands.choices) - before, implementation.plugin_name))
    return owners
