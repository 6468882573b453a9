"""What can be said of the launcher `ray` without a cluster: options, ranks, what is missing."""

from __future__ import annotations

import importlib.util

import attrs
import pytest

from core_rl.component import Component
from core_rl.errors import PluginError, UserError
from core_rl_ray.actor import Place
from core_rl_ray.config import RayLauncherConfig
from core_rl_ray.launcher import RayLauncher
from core_rl_ray.placement import Wish
from core_rl_ray.ranks import environments, in_order


def place(node: str, *gpus: str) -> Place:
    return Place(node=node, address=f"10.0.0.{node}", gpus=gpus, pid=1, log="")


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("ray://10.0.0.1:10001", "client protocol.*address: auto"),
        ("local", "a cluster of its own is address: null"),
        ("10.0.0.1", "expected auto or host:port, as 10.0.0.1:6379"),
    ],
)
def test_addresses_that_are_refused(address, text):
    """Ray's client protocol, a word of Ray's, a host without its port."""
    with pytest.raises(ValueError, match=text):
        RayLauncherConfig(address=address)


def test_addresses_that_are_taken():
    """Names, numbers, IPv6, auto."""
    for address in ("auto", "head:6379", "10.0.0.1:6379", "[fd00::1]:6379"):
        assert RayLauncherConfig(address=address).address == address


def test_the_object_store_of_another_cluster_is_not_ours_to_set():
    """A knob that nothing would read."""
    with pytest.raises(ValueError, match="cluster that the run starts, and address is auto"):
        RayLauncherConfig(address="auto", object_store_mb=500)


def test_without_ray_one_line_says_what_to_install(monkeypatch):
    """As soon as the launcher is built."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    with pytest.raises(PluginError, match=r"needs ray: pip install 'core-rl\[ray\]'"):
        RayLauncher(RayLauncherConfig())


def test_an_engine_of_one_process_is_refused():
    """Before a cluster starts."""
    launcher = RayLauncher(RayLauncherConfig(workers=2))

    with pytest.raises(UserError, match="local is one process, and the launcher has 2 workers"):
        launcher.train_engine(Component(name="local", target="x:Y"), None, None)
    launcher.close()


def test_ranks_go_node_by_node():
    """Whatever order Ray has placed them in; on a node by GPU; LOCAL_RANK counts there and names the own GPU."""
    placed = [place("b", "10"), place("a", "0"), place("b", "9"), place("a", "1"), place("b", "2")]
    order = in_order(placed)
    found = environments([placed[index] for index in order], address="10.0.0.b", port=5, threads=3, env={"X": "y"})

    assert order == [4, 2, 0, 1, 3]
    assert [each["RANK"] for each in found] == ["0", "1", "2", "3", "4"]
    assert [each["LOCAL_RANK"] for each in found] == ["0", "1", "2", "0", "1"]
    assert [each["CUDA_VISIBLE_DEVICES"] for each in found] == ["2,9,10"] * 3 + ["0,1"] * 2
    assert {(each["WORLD_SIZE"], each["MASTER_ADDR"], each["MASTER_PORT"], each["X"]) for each in found} == {
        ("5", "10.0.0.b", "5", "y")
    }
    assert found[0]["OMP_NUM_THREADS"] == "3"


def test_workers_without_gpus_see_none():
    """In the order in which Ray has placed them; the user's own number of threads stays."""
    placed = [place("a"), place("b"), place("a")]
    found = environments(placed, address="a", port=1, threads=1, env={"OMP_NUM_THREADS": "7"})

    assert in_order(placed) == [0, 2, 1]
    assert {each["CUDA_VISIBLE_DEVICES"] for each in found} == {""}
    assert {each["OMP_NUM_THREADS"] for each in found} == {"7"}


@attrs.frozen
class OfGpus:
    """As much of a cluster as `Wish` asks for."""

    number: int
    own: bool = False

    def gpus(self) -> int:
        return self.number


def test_what_is_asked_for():
    """Workers and devices follow the cluster where they are not given; CPUs are counted where others are too."""
    assert Wish.of(RayLauncherConfig(), OfGpus(0)).bundle == {"CPU": 1}
    assert Wish.of(RayLauncherConfig(), OfGpus(4)).workers == 4
    assert Wish.of(RayLauncherConfig(cpus_per_worker=3), OfGpus(4)).bundle == {"CPU": 3, "GPU": 1}
    assert Wish.of(RayLauncherConfig(device="cpu"), OfGpus(4)) == Wish(
        workers=1, cpus=1, cuda=False, strategy="PACK", own=False
    )
    assert Wish.of(RayLauncherConfig(workers=2, cpus_per_worker=64), OfGpus(0, own=True)).bundle["CPU"] < 0.01
