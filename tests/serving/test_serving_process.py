"""Servers as processes: they start, they end, they say why; and none outlives its driver."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from core_rl.errors import RunError
from core_rl.ports import free_port
from core_rl.serving.http import Client
from core_rl.serving.process import ServerProcess
from core_rl.serving.replica import ServerLostError

SERVER = Path(__file__).with_name("small_server.py")
DRIVER = """
import asyncio, sys
from pathlib import Path
from core_rl.serving.http import Client
from core_rl.serving.process import ServerProcess

async def main():
    _, server, port, log = sys.argv
    client = Client(f"http://127.0.0.1:{port}")
    process = ServerProcess(name="server 0", command=[sys.executable, server, port], log=Path(log))
    await process.start(lambda: client.get("/"), timeout_s=60.0)
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
STUBBORN = (
    "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(os.getpid(), flush=True); time.sleep(600)"
)
HASTY_KEEPER = """
import os, sys
from core_rl.serving import keeper
keeper.GOODBYE_S = keeper.LOOK_EVERY_S = 0.1
sys.argv = ["keeper", str(os.getppid()), sys.executable, "-c", sys.argv[1]]
sys.exit(keeper.main())
"""


@pytest.fixture
def log(tmp_path):
    return tmp_path / "logs" / "server-0.log"


def written(log):
    """What the small server says of itself."""
    return dict(line.split(" ", 1) for line in log.read_text().splitlines() if line.startswith(("pids", "colour", "usual")))


def family(log):
    """The server and its child."""
    return [psutil.Process(int(pid)) for pid in written(log)["pids"].split()]


def gone(processes):
    """Within the time that the keeper may take to notice."""
    return psutil.wait_procs(processes, timeout=30)[1] == []


async def never():
    message = "not yet"
    raise ServerLostError(message)


def of_code(code, log):
    return ServerProcess(name="server 0", command=[sys.executable, "-c", code], log=log)


def start(process, ready=never, timeout_s=60.0):
    """And its message, as it fails."""
    with pytest.raises(RunError) as error:
        asyncio.run(process.start(ready, timeout_s=timeout_s))
    return str(error.value)


def test_a_server_starts_and_stops(log):
    """It has the environment that was given, what it prints is in the log, and its own children end with it."""
    port = free_port()
    client = Client(f"http://127.0.0.1:{port}")
    process = ServerProcess(
        name="server 0", command=[sys.executable, str(SERVER), str(port)], environment={"COLOUR": "green"}, log=log
    )

    async def main():
        before = process.exit_code
        await process.start(lambda: client.get("/"), timeout_s=60.0)
        processes, running = family(log), process.exit_code
        await process.stop()
        await process.stop()
        await client.close()
        return before, running, processes

    before, running, processes = asyncio.run(main())

    assert (before, running) == (None, None)
    assert gone(processes)
    assert (written(log)["colour"], written(log)["usual"]) == ("green", "True")


def test_a_server_that_ends_says_why(log):
    """The exit code, the last lines of its log, and where all of it is."""
    message = start(of_code("for n in range(40): print('line', n)\nimport sys; sys.exit('no GPU')", log))

    assert message.startswith("rollout_engine: server 0 ended with exit code 1 before it was ready\n    line 26\n")
    assert message.endswith(f"    line 39\n    no GPU\nThe whole log: {log}")


def test_a_server_that_was_killed_says_so(log):
    """128 and the signal, as a shell has it; the end of a long log is enough."""
    message = start(
        of_code("import os\nprint('x' * 10**6, flush=True); print('end', flush=True); os.kill(os.getpid(), 9)", log)
    )

    assert "exit code 137" in message
    assert message.endswith(f"x\n    end\nThe whole log: {log}")
    assert len(message) < 1000


def test_what_a_server_leaves_behind_ends_with_it(log):
    """Its own children, also where it went without them."""
    start(of_code("import subprocess; print('pids', subprocess.Popen(['sleep', '600']).pid)", log))

    assert gone([psutil.Process(int(pid)) for pid in written(log)["pids"].split() if psutil.pid_exists(int(pid))])


def test_a_program_that_is_not_there_is_in_the_message(log):
    """And a log that cannot be written."""
    assert "No such file or directory: '/no/such/server'" in start(
        ServerProcess(name="s", command=["/no/such/server"], log=log)
    )
    assert "rollout_engine: s cannot be started: " in start(
        ServerProcess(name="s", command=["true"], log=log / "below" / "a file")
    )


@pytest.mark.parametrize("ready", [never, lambda: asyncio.Event().wait()])
def test_a_server_that_is_not_ready_in_time_is_ended(log, ready):
    """Whether it refuses or lets one wait."""
    process = of_code("import time; time.sleep(600)", log)
    message = start(process, ready, timeout_s=0.05)

    assert message == f"rollout_engine.start_timeout_s: server 0 was not ready after 0.05 s\nThe whole log: {log}"
    assert not [child for child in psutil.Process().children(recursive=True) if "time.sleep(600)" in child.cmdline()]


def test_nothing_outlives_a_driver_that_was_killed(tmp_path, log):
    """The server and its own child end after kill -9 of the one who started them."""
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(SERVER), str(free_port()), str(log)], stdout=subprocess.PIPE, text=True
    )
    with driver:
        ready = driver.stdout.readline()
        processes = family(log)
        alive = [process.is_running() for process in processes]
        driver.kill()

    assert (ready, alive) == ("ready\n", [True, True])
    assert gone(processes)


def test_signals_of_the_terminal_are_for_the_driver():
    """Ctrl-C and a closed terminal do not end a server by themselves; one that does not want to end is killed."""
    keeper = subprocess.Popen([sys.executable, "-c", HASTY_KEEPER, STUBBORN], stdout=subprocess.PIPE, text=True)
    with keeper:
        child = psutil.Process(int(keeper.stdout.readline()))
        keeper.send_signal(signal.SIGINT)
        keeper.send_signal(signal.SIGHUP)
        keeper.send_signal(signal.SIGTERM)

    assert keeper.returncode == 128 + signal.SIGKILL
    assert gone([child])
