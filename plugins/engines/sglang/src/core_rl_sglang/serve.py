"""Starts SGLang's server with core-rl's extension: `python -m core_rl_sglang.serve --model-path MODEL …`, with SGLang's own flags.

core-rl itself starts it with options in the environment, where no list of processes shows them. Runs in the server's environment.
"""

from __future__ import annotations

import argparse
import os
import sys

from core_rl.errors import UserError
from core_rl.serving.options import given_options
from core_rl_sglang.arguments import as_flags
from core_rl_sglang.extension import SWITCH


def main() -> int:
    os.environ[SWITCH] = "1"  # for the workers too, which are processes of their own
    os.environ.setdefault("SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION", "0")  # a paused server is no dead one
    import sglang
    from sglang.launch_server import run_server
    from sglang.srt.plugins import load_plugins
    from sglang.srt.server_args import ServerArgs, prepare_server_args
    from sglang.srt.utils import kill_process_tree

    load_plugins()
    options = given_options()
    flags = sys.argv[1:]
    if options is not None:
        parser = argparse.ArgumentParser()
        ServerArgs.add_cli_args(parser)
        try:
            flags = as_flags(options, parser, sglang.__version__)
        except UserError as error:
            print(f"core-rl: {error}", file=sys.stderr)
            return 2
    arguments = prepare_server_args(flags)
    try:
        run_server(arguments)
    finally:
        kill_process_tree(os.getpid(), include_parent=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
