"""Starts vLLM's server with checked options, which core-rl gives it by the environment. Runs in the server's environment.

vLLM's own command looks for a distribution that is called vllm, which builds for other machines are not.
"""

from __future__ import annotations

import importlib
import runpy
import sys
from typing import Any

from core_rl.errors import UserError
from core_rl.serving.options import check_names, given_options
from core_rl_vllm.arguments import as_flags

_SERVER = "vllm.entrypoints.openai.api_server"
_PARSERS = ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args")
"""Where vLLM makes its parser: from 0.32 on, and before."""


def main() -> int:
    arguments = given_options() or {}
    import vllm

    try:
        check_names(arguments, _known(), f"vLLM {vllm.__version__}")
    except UserError as error:
        print(f"core-rl: {error}", file=sys.stderr)
        return 2
    sys.argv = [_SERVER, *as_flags(arguments)]
    runpy.run_module(_SERVER, run_name="__main__", alter_sys=True)
    return 0


def _known() -> set[str]:
    """Every option of the server."""
    argparse: Any = importlib.import_module("vllm.utils.argparse_utils")
    for name in _PARSERS:
        try:
            module: Any = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        parser = module.make_arg_parser(argparse.FlexibleArgumentParser())
        return {action.dest for action in parser._actions}  # noqa: SLF001 - argparse has no public list
    message = f"rollout_engine: none of {', '.join(_PARSERS)} is in this version of vLLM; core-rl-vllm was written for 0.32"
    raise UserError(message)


if __name__ == "__main__":
    sys.exit(main())
