"""`core-rl`: which command, and what becomes of errors. Only the module of the command that is used is imported.

A command is a module with `add_arguments(parser)` and `run(args) -> int`. A plugin adds further ones with `core_rl_add_commands`; they
are looked up only when the core has no such command.

Exit codes: 0 done, 1 failed, 2 the user's mistake, 130 interrupted, 141 nobody reads the output.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from core_rl import __version__
from core_rl.errors import UserError

COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("core_rl.cli.train", "train a model as a run file says, or go on with a run"),
    "eval": ("core_rl.cli.eval", "score a checkpoint or model on held-out prompts"),
    "generate": ("core_rl.cli.generate", "let a checkpoint or model answer prompts"),
    "plugins": ("core_rl.cli.plugins", "list, show and check what is installed"),
    "config": ("core_rl.cli.config", "check, show and describe run files"),
    "doctor": ("core_rl.cli.doctor", "say what works on this machine, and why not"),
    "report": ("core_rl.cli.report", "make the report of a run"),
    "recipes": ("core_rl.cli.recipes", "list and copy the run files that plugins bring"),
}
"""Each command: its module and its line of help."""
_RUN_FILE_COMMANDS = frozenset({"train", "eval", "generate", "doctor"})
"""Those with `--locked`; `config` has it in its own commands."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. The exit code is returned; argparse exits by itself, with 2, for arguments it does not know."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments[: arguments.index("--")] if "--" in arguments else "--debug" in arguments
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains once more when it ends
        return 141
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            raise
        return _explain(error)
    return code


def _explain(error: BaseException) -> int:
    """Print an error as lines for a person; the exit code."""
    if isinstance(error, KeyboardInterrupt):
        print("core-rl: interrupted", file=sys.stderr)
        return 130
    if isinstance(error, UserError):
        for line in str(error).splitlines():
            print(f"core-rl: error: {line}", file=sys.stderr)
        return 2
    text = str(error).strip().partition("\n")[0]
    print(f"core-rl: error: {type(error).__name__}: {text} (this may be a bug: --debug for the traceback)", file=sys.stderr)
    return 1


def _dispatch(arguments: list[str]) -> int:
    parser = _Parser(
        prog="core-rl",
        description="Reinforcement-learning post-training of language models.",
        epilog="Plugins may add commands: core-rl plugins list shows them.",
    )
    parser.add_argument("--version", action="version", version=f"core-rl {__version__}")
    _add_debug(parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", parser_class=_Parser)
    parsers = {name: commands.add_parser(name, help=text, description=text) for name, (_, text) in COMMANDS.items()}
    name = next((argument for argument in arguments if not argument.startswith("-")), None)
    if name is None:
        parser.parse_args(arguments)
        parser.print_help(sys.stderr)
        return 2
    if name not in COMMANDS:
        from core_rl.cli import plugin_commands

        return plugin_commands.run(name, parser, commands, arguments)
    module = importlib.import_module(COMMANDS[name][0])
    module.add_arguments(parsers[name])
    _add_debug(parsers[name])
    if name in _RUN_FILE_COMMANDS:
        add_locked(parsers[name])
    args = parser.parse_args(arguments)
    if getattr(args, "locked", False):
        from core_rl.plugins.lock import require_lock

        require_lock()
    code: int = module.run(args)
    return code


def _add_debug(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help="show the traceback of an error")


def add_locked(parser: argparse.ArgumentParser) -> None:
    """For a command that takes a run file, and so meets every plugin."""
    text = "refuse plugins, versions and files that are not in core-rl.lock, or in the file that CORE_RL_LOCKED names"
    parser.add_argument("--locked", action="store_true", help=text)


class _Parser(argparse.ArgumentParser):
    """Says its errors as the rest of core-rl does, and lets options stand anywhere: `train run.yaml --debug seed=3`."""

    _mixing = False

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """Without a default, argparse counts a list that may be empty among the arguments that are required."""
        if options.get("nargs") == "*" and not names[0].startswith("-"):
            options.setdefault("default", [])
        return super().add_argument(*names, **options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Where positional arguments end in a list, argparse takes them in one go: intermixed parsing is its own remedy."""
        if self._mixing or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._mixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixing = False

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"core-rl: error: {message} (see {self.prog} --help)\n")
