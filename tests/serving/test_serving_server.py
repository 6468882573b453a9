"""The life of a server by HTTP: what it is given, and what happens when it ends or says nothing more."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from core_rl.errors import UserError
from core_rl.serving.config import ServerConfig
from core_rl.serving.options import check_names, given_options, in_environment, own_options
from core_rl.serving.replica import ServerLostError
from core_rl.serving.server import HttpServer

FOLDER = Path(__file__).parent
LAUNCH = """
import os, sys
from core_rl.serving.options import given_options
options = given_options()
print("given", options, "left", "CORE_RL_SERVER_OPTIONS" in os.environ, flush=True)
sys.argv = ["small_server.py", str(options["port"])]
sys.path.insert(0, options["folder"])
import small_server
small_server.main()
"""


class Small(HttpServer):
    kind = "Small"
    module = "launch_small"

    def arguments(self):
        return {"port": self.port, "folder": str(FOLDER), "api_key": self.options.api_key}


@pytest.fixture
def options(tmp_path):
    (tmp_path / "launch_small.py").write_text(LAUNCH)
    path = os.pathsep.join([str(tmp_path), *(entry for entry in sys.path if entry)])
    return {"env": {"PYTHONPATH": path}, "log_dir": str(tmp_path / "logs"), "health_every_s": 0.2, "api_key": "secret-key"}


def with_server(options, work):
    async def main():
        server = Small(ServerConfig(**options), url=None)
        server.health = lambda: server.client.touch("/health", timeout_s=1.0)
        try:
            await server.ready()
            return await work(server)
        finally:
            await server.close()

    return asyncio.run(main())


def running(server) -> psutil.Process:
    """The one that listens."""
    pids = [int(line.split()[1]) for line in log(server).splitlines() if line.startswith("pids")]
    return psutil.Process(pids[-1])


def log(server) -> str:
    return (Path(server.options.log_dir) / "small-0.log").read_text()


def test_options_reach_it_and_no_list_of_processes(options):
    """A key is neither on the command line of the server nor of the one that keeps it, and its children are not told."""

    async def work(server):
        process = running(server)
        lines = [process.cmdline(), process.parent().cmdline(), *(child.cmdline() for child in process.children())]
        return " ".join(word for line in lines for word in line), log(server)

    commands, text = with_server(options, work)

    assert "launch_small" in commands
    assert "secret-key" not in commands
    assert "'api_key': 'secret-key'" in text
    assert "left False" in text


@pytest.mark.parametrize("trouble", [signal.SIGKILL, signal.SIGSTOP])
def test_one_that_ends_or_says_nothing_is_started_again(options, trouble):
    """As often as the options allow; one that answers is left alone."""

    async def work(server):
        await server.recover()
        first = running(server)
        os.kill(first.pid, trouble)
        async with asyncio.timeout(60):
            while server.restarts == 0:
                await server.recover()
                await asyncio.sleep(0.1)
        second = running(server)
        os.kill(second.pid, signal.SIGKILL)
        await asyncio.sleep(1.5)  # until its keeper has seen it
        with pytest.raises(UserError, match="has ended, or has not answered, 2 times"):
            await server.recover()
        return first.pid, second.pid, server.restarts

    first, second, restarts = with_server(options, work)

    assert first != second
    assert restarts == 1
    assert not psutil.pid_exists(first)


def test_one_look_without_an_answer_is_none(options):
    """It may be busy."""

    async def work(server):
        answers, server.health = server.health, no_answer
        await server.recover()
        await server.recover()
        server.health = answers
        await server.recover()
        server.health = no_answer
        await server.recover()
        return server.restarts

    assert with_server(options, work) == 0


async def no_answer():
    message = "nothing"
    raise ServerLostError(message)


def test_options_travel_in_the_environment(monkeypatch):
    """Once."""
    monkeypatch.delenv("CORE_RL_SERVER_OPTIONS", raising=False)
    assert given_options() is None
    for name, value in in_environment({"a": [1, {"b": None}]}).items():
        monkeypatch.setenv(name, value)
        assert json.loads(value) == {"a": [1, {"b": None}]}

    assert given_options() == {"a": [1, {"b": None}]}
    assert given_options() is None


def test_names_of_options():
    """With underscores or dashes; what core-rl sets itself is refused, and what an engine lacks."""
    assert own_options({"tp-size": 2, "a_b": 1}, {"port"}) == {"tp_size": 2, "a_b": 1}
    with pytest.raises(UserError, match=r"rollout_engine\.args\.api-key: core-rl sets this itself"):
        own_options({"api-key": 2}, {"api_key"})
    with pytest.raises(UserError, match=r"Engine 1 has no such option$"):
        check_names(["zzz"], ["port"], "Engine 1")
