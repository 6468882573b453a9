"""Runs a server as its child, and ends it when the one who asked for it is gone: also after kill -9.

    python keeper.py DRIVER_PID COMMAND…

The standard library alone: this file is run by itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

LOOK_EVERY_S = 0.5
GOODBYE_S = 10.0


def main() -> int:
    driver, command = int(sys.argv[1]), sys.argv[2:]
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
    for of_the_terminal in (signal.SIGINT, signal.SIGHUP):  # is for the driver, which decides what ends
        signal.signal(of_the_terminal, lambda *_: None)  # the child, unlike with SIG_IGN, has what is usual
    child = subprocess.Popen(command, start_new_session=True)  # noqa: S603 - what the driver says
    while child.poll() is None and not asked and os.getppid() == driver:
        time.sleep(LOOK_EVERY_S)
    if child.poll() is None:
        _end(child)
    with contextlib.suppress(ProcessLookupError):  # its own children, which may outlive it
        os.killpg(child.pid, signal.SIGKILL)
    code = child.returncode
    return 128 - code if code < 0 else code


def _end(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
    try:
        child.wait(GOODBYE_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


if __name__ == "__main__":
    sys.exit(main())
