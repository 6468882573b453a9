"""Workers that are Ray actors, on a real cluster of this machine: calls, streams, failures, room, and who ends with whom."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from core_rl.component import Component
from core_rl.errors import DataError, RunError, UserError
from core_rl.workers.group import Every, WorkerError, scatter
from core_rl_ray.cluster import Cluster, _knock, join
from core_rl_ray.config import RayLauncherConfig
from core_rl_ray.group import RayGroup
from core_rl_ray.launcher import RayLauncher
from core_rl_ray.placement import Wish

HERE = Path(__file__).parent
FORM = ("toy", "ray_toys:Toy", None)
TWO = RayLauncherConfig(workers=2, device="cpu")


def make(cluster: Cluster, **env: str) -> RayGroup:
    group = RayGroup(cluster, Wish.of(TWO, cluster), env=env, wait_s=30)
    group.create("toy", FORM, "hello")
    return group


@pytest.fixture
def group(cluster):
    made = make(cluster, FLAVOUR="plain")
    yield made
    made.close()


def test_calls_and_streams(group, monkeypatch):
    """Every rank is called; arguments are the same or each rank's own; rank 0's result, or all; a stream is rank 0's items."""
    import ray

    cut = next(iter(group.stream("toy", "count", 3)))
    puts = []
    put = ray.put
    monkeypatch.setattr(ray, "put", lambda value: puts.append(len(value[0])) or put(value))

    assert group.call("toy", "weigh", b"0" * 10**6, gather=Every()) == [10**6] * 2
    assert [size > 10**6 for size in puts] == [True]
    assert group.call("toy", "place") == ("hello", 0, 2, 0)
    assert group.call("toy", "place", gather=Every()) == [("hello", 0, 2, 0), ("hello", 1, 2, 1)]
    assert group.call("toy", "add", [[1, 2], [3, 4]], split=scatter, gather=Every(), extra=1) == [4, 8]
    assert list(group.stream("toy", "count", 3)) == [(0, 0), (1, 0), (2, 0)]
    assert cut == (0, 0)
    assert group.call("toy", "apply", lambda number: number + 1, 1) == 2
    assert group.call("toy", "folder") == str(Path.cwd())
    assert group.call("toy", "environ", "FLAVOUR", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS") == ["plain", "", "1"]
    with pytest.raises(UserError, match=r"cannot send call to the workers.*must pickle"):
        group.call("toy", "add", sys._getframe())


def test_several_objects_and_one_that_cannot_be_made(group):
    """Engines share a group under keys; a mistake of the user in making one is told as itself, with the rank."""
    group.create("other", FORM, "again")
    both = group.call("other", "place")[0], group.call("toy", "place")[0]
    group.remove("other")

    assert both == ("again", "hello")
    with pytest.raises(DataError, match="expected a divisor of 2, found 3") as caught:
        group.create("broken", ("broken", "ray_toys:Broken", None))
    assert caught.value.__notes__ == ["on worker 1, in making broken"]
    with pytest.raises(RunError, match="workers are gone"):
        group.call("toy", "place")


def test_results_of_others_are_not_sent(group):
    """Rank 1 returns what does not pickle: nobody sees it before it is asked for, and then its rank is named."""
    assert group.call("toy", "unsendable", 1) is None
    with pytest.raises(WorkerError, match="worker 1 failed in unsendable: TypeError: cannot pickle"):
        group.call("toy", "unsendable", 1, gather=Every())


def test_the_first_real_error_is_raised(group):
    """Within seconds, with its rank and traceback, while another rank waits; Ray's own errors stay out of it."""
    start = time.monotonic()

    with pytest.raises(WorkerError, match="worker 1 failed in fail: ValueError: the real cause") as caught:
        group.call("toy", "fail", 1)

    assert time.monotonic() - start < 20
    assert "ray_toys.py" in caught.value.worker_traceback
    assert caught.value.__cause__ is None
    group.close()


def test_a_killed_worker_is_the_cause_and_its_lost_peer_is_not(group):
    """Ranks reduce over gloo; then one is killed amid the next all-reduce. It is named, with its place and what can be done."""
    assert group.call("toy", "total", [1.0, 2.0], gather=Every())[1].tolist() == [3.0, 6.0]
    with pytest.raises(
        WorkerError, match=r"worker 1 died: killed \(out of memory\?\).*pid \d+ on .*\.err.*die_in_all_reduce.*--resume"
    ):
        group.call("toy", "die_in_all_reduce", 1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"device": "cuda"},
            r"no room for 2 workers with 1 GPU each, strategy PACK; .* 1 node with 0 GPU: .*device: cpu",
        ),
        (
            {"device": "cpu", "strategy": "STRICT_SPREAD"},
            r"no room for 2 workers, strategy STRICT_SPREAD; the cluster has 1 node: .*strategy: SPREAD",
        ),
    ],
)
def test_what_an_own_cluster_can_never_hold_is_refused_at_once(cluster, options, text):
    """With what was asked and what there is."""
    with pytest.raises(UserError, match=text):
        RayGroup(cluster, Wish.of(RayLauncherConfig(workers=2, **options), cluster), env={}, wait_s=1000)


def test_the_wait_for_room_is_bounded(cluster):
    """A cluster of others may grow or become free, so that it is waited for."""
    cores = os.cpu_count()
    wish = Wish(workers=2, cpus=cores, cuda=False, strategy="STRICT_PACK", own=False)

    with pytest.raises(
        UserError, match=rf"no room within 0.5 s for 2 workers with {cores} CPU each.* CPU free: .*strategy: PACK"
    ):
        RayGroup(cluster, wish, env={}, wait_s=0.5)


def test_engines_of_a_launcher_share_its_workers(cluster):
    """The second begins in the actors of the first; a closed launcher leaves the cluster to others."""
    launcher = RayLauncher(TWO)
    component = Component(name="toy", target="ray_toys:ToyEngine", config="x:Y", provides={"distributed"})
    first, second = (launcher.train_engine(component, name, None) for name in ("actor", "critic"))
    first.setup()
    second.setup()
    facts = first.describe(), second.describe()
    second.close()
    launcher.close()

    assert facts[0] == {"name": "actor", "pid": facts[0]["pid"], "workers": 2}
    assert facts[1] == {"name": "critic", "pid": facts[0]["pid"], "workers": 2}
    assert Cluster.joined is cluster
    with pytest.raises(RunError, match="workers are gone"):
        first.describe()


def test_one_process_cannot_be_several_workers(cluster):
    """Where the cluster says how many, it is found out when the engine begins."""
    launcher = RayLauncher(RayLauncherConfig())
    engine = launcher.train_engine(Component(name="local", target="x:Y"), None, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cluster, "gpus", lambda self: 4)
        with pytest.raises(UserError, match="local is one process, and the launcher has 4 workers"):
            engine.setup()
    launcher.close()

    assert Cluster.joined is cluster


def test_launchers_share_a_cluster(cluster):
    """The last one out ends it; a second cluster at the same time is refused."""
    again = join(TWO)
    again.leave()

    assert again is cluster
    assert Cluster.joined is cluster
    with pytest.raises(UserError, match="address: auto, and another launcher of this run has null"):
        join(RayLauncherConfig(address="auto"))


def test_nothing_answers_at_an_address():
    """It is told in seconds."""
    with pytest.raises(UserError, match=r"nothing answers at 127.0.0.1:9 .*ray start --head"):
        _knock("127.0.0.1:9")


DRIVER = """
import signal, sys
from core_rl_ray.cluster import join
from core_rl_ray.config import RayLauncherConfig
from core_rl_ray.group import RayGroup
from core_rl_ray.placement import Wish

signal.signal(signal.SIGINT, lambda *_: print("interrupted", flush=True))
sys.path.insert(0, sys.argv[1])
before = signal.getsignal(signal.SIGTERM)
cluster = join(RayLauncherConfig(workers=1, device="cpu", address=sys.argv[2] or None))
group = RayGroup(cluster, Wish.of(RayLauncherConfig(workers=1, device="cpu"), cluster), env={}, wait_s=30)
group.create("toy", ("toy", "ray_toys:Toy", None), "hello")
print(group.call("toy", "apply", __import__("os").getpid), signal.getsignal(signal.SIGTERM) is before, flush=True)
while True:
    line = sys.stdin.readline().strip()
    if line == "nap":
        print("napped", group.call("toy", "nap", 3, sys.argv[3]), flush=True)
    else:
        break
group.close()
cluster.leave()
print("left", flush=True)
"""


def drive(address: str, touched: Path) -> tuple[subprocess.Popen[str], int]:
    """A driver of its own in a process group of its own, and its actor's process."""
    command = [sys.executable, "-c", DRIVER, str(HERE), address, str(touched)]
    driver = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    pid, restored = driver.stdout.readline().split()

    assert restored == "True"
    return driver, int(pid)


def say(driver: subprocess.Popen[str], word: str) -> None:
    driver.stdin.write(f"{word}\n")
    driver.stdin.flush()


def gone(pids: list[int], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while any(map(psutil.pid_exists, pids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def test_a_joined_cluster_outlives_its_drivers(cluster, group, tmp_path):
    """One driver leaves, another is killed amid a call: their actors are gone in seconds, ours go on."""
    import ray

    address = ray.get_runtime_context().gcs_address
    first, first_actor = drive(address, tmp_path / "first")
    out, _ = first.communicate("leave\n", timeout=60)
    second, second_actor = drive("auto", tmp_path / "second")
    say(second, "nap")
    while not (tmp_path / "second").exists():
        time.sleep(0.05)
    second.send_signal(signal.SIGKILL)
    second.communicate()

    assert out == "left\n"
    assert gone([first_actor, second_actor], within_s=20)
    assert group.call("toy", "place") == ("hello", 0, 2, 0)


@pytest.mark.slow
def test_an_own_cluster_ends_with_its_driver(tmp_path):
    """Ctrl-C in the terminal reaches the driver alone; after kill -9 of the driver amid a call its workers are gone in seconds.

    Ray's own agents, which hold nothing, try to tell of it for a minute.
    """
    driver, _ = drive("", tmp_path / "touched")
    say(driver, "nap")
    while not (tmp_path / "touched").exists():
        time.sleep(0.05)
    os.killpg(driver.pid, signal.SIGINT)
    lines = [driver.stdout.readline(), driver.stdout.readline()]
    children = psutil.Process(driver.pid).children(recursive=True)
    agents = [child for child in children if child.name().endswith("Agent")]
    say(driver, "nap")
    time.sleep(0.5)
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    ended = gone([child.pid for child in children if child not in agents], within_s=30)
    for agent in agents:
        with contextlib.suppress(psutil.NoSuchProcess):
            agent.kill()

    assert sorted(lines) == ["interrupted\n", "napped 0\n"]
    assert len(children) > len(agents) + 3
    assert ended
