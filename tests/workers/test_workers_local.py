"""Worker processes of this machine: calls, streams, failures, and that none outlives its driver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

from core_rl.errors import DataError, RunError, UserError
from core_rl.workers import process_group
from core_rl.workers.group import Every, Failure, WorkerError, first_cause, scatter
from core_rl.workers.local_group import LocalGroup
from core_rl.workers.ranks import Ranks

HERE = Path(__file__).parent
FORM = ("toy", "toys:Toy", None)


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{HERE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.syspath_prepend(str(HERE))


@pytest.fixture
def group():
    made = LocalGroup(2, threads=1)
    made.create("toy", FORM, "hello")
    yield made
    made.close()


def test_calls_and_streams(group):
    """Every rank is called; arguments are the same or each rank's own; rank 0's result, or all; a stream is rank 0's items."""
    numbers = [(number, float(tensor[0])) for number, tensor in group.stream("toy", "count", 3)]
    cut = next(iter(group.stream("toy", "count", 3)))

    assert group.call("toy", "place") == ("hello", 0, 2)
    assert group.call("toy", "place", gather=Every()) == [("hello", 0, 2), ("hello", 1, 2)]
    assert group.call("toy", "add", [[1, 2], [3, 4]], split=scatter, gather=Every(), extra=1) == [4, 8]
    assert numbers == [(0, 0.0), (1, 1.0), (2, 2.0)]
    assert cut[0] == 0
    torch.testing.assert_close(group.call("toy", "total", torch.ones(3)), torch.full((3,), 3.0))
    with pytest.raises(ValueError, match="3 entries for 2 workers"):
        group.call("toy", "add", [1, 2, 3], split=scatter)
    with pytest.raises(UserError, match="must pickle"):
        group.call("toy", "add", lambda: None)


@pytest.mark.parametrize(
    ("rank", "kind", "error", "text"),
    [
        (1, "value", WorkerError, "worker 1 failed in fail: ValueError: the real cause"),
        (1, "user", DataError, "expected 1, found 2"),
    ],
)
def test_the_first_real_error_is_raised(group, rank, kind, error, text):
    """Within seconds, with its rank and traceback; a mistake of the user stays one; the group is over."""
    start = time.monotonic()

    with pytest.raises(error, match=text) as caught:
        group.call("toy", "fail", rank, kind)

    assert time.monotonic() - start < 20
    assert "in fail" in (str(caught.value) if kind == "value" else caught.value.__notes__[0])
    with pytest.raises(RunError, match="workers are gone"):
        group.call("toy", "place")


def test_an_interrupted_call_ends_the_group(group):
    """Its answer would be taken for that of the next call."""
    from core_rl.testing.kit.limit import OutOfTimeError, ends_within

    with pytest.raises(OutOfTimeError), ends_within(2.0):
        group.call("toy", "rest", 60.0)

    with pytest.raises(RunError, match="place: the workers are gone"):
        group.call("toy", "place")


def test_what_does_not_pickle_for_one_rank_reaches_none(group):
    """The group goes on."""
    with pytest.raises(UserError, match="must pickle"):
        group.call("toy", "add", [1, lambda: None], split=scatter)

    assert group.call("toy", "place", gather=Every()) == [("hello", 0, 2), ("hello", 1, 2)]


def test_a_killed_worker_ends_the_group(group):
    """It is named, with the signal, and what can be done."""
    with pytest.raises(WorkerError, match=r"worker 1 was killed by SIGKILL \(out of memory\?\) in die.*--resume"):
        group.call("toy", "die", 1)


def test_a_worker_that_leaves_is_named(group):
    """With its exit code."""
    with pytest.raises(WorkerError, match="worker 0 ended by itself with exit code 3 in leave"):
        group.call("toy", "leave")


def test_the_cause_is_told_from_what_follows():
    """A rank's own error comes before a death, a death before a lost connection."""
    lost = Failure(rank=0, kind="builtins:RuntimeError", message="gloo: Connection closed by peer [127.0.0.1]")
    own = Failure(rank=2, kind="builtins:KeyError", message="x")
    death = Failure.death(1, "was killed by SIGKILL")

    assert first_cause([lost, death]) is death
    assert first_cause([lost, death, own]) is own


def test_workers_end_with_a_killed_driver(tmp_path):
    """kill -9 of the driver leaves nobody behind, also in the middle of a call."""
    script = tmp_path / "drive.py"
    script.write_text(
        "from core_rl.workers.local_group import LocalGroup\n"
        "if __name__ == '__main__':\n"
        "    group = LocalGroup(2, threads=1)\n"
        "    group.create('toy', ('toy', 'toys:Toy', None), 'hello')\n"
        "    print('ready', flush=True)\n"
        "    group.call('toy', 'fail', 7)\n"
    )
    driver = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert driver.stdout.readline() == "ready\n"
    children = [
        child for child in psutil.Process(driver.pid).children(recursive=True) if "spawn_main" in " ".join(child.cmdline())
    ]

    driver.send_signal(signal.SIGKILL)
    driver.wait()
    driver.stdout.close()
    _, alive = psutil.wait_procs(children, timeout=10)

    assert len(children) == 2
    assert not alive


def test_a_device_that_the_group_does_not_serve_is_refused(monkeypatch):
    """Two engines of one process, one on the CPU and one on a GPU; and a rank without a GPU of its own."""
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    process_group.join("cpu")
    try:
        monkeypatch.setattr(process_group, "pick_device", lambda *_: torch.device("cuda", 0))
        with pytest.raises(UserError, match="in a gloo group already, which does not serve cuda tensors"):
            process_group.join("cuda")
    finally:
        process_group.leave()
    monkeypatch.undo()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)

    with pytest.raises(UserError, match="worker 2 of this machine has no GPU of its own, torch sees 2: start 2 workers"):
        process_group.pick_device("auto", Ranks(rank=2, world_size=4, local_rank=2))
    with pytest.raises(UserError, match="expected auto, cpu or cuda, found 'gpu'"):
        process_group.pick_device("gpu", Ranks())
