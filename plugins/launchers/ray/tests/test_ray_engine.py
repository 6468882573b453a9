"""A train engine of two ranks on Ray: the same numbers as elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from core_rl.testing.train_engine.bench import Bench
from core_rl.testing.train_engine.subject import Subject
from core_rl.testing.train_engine.suite import Case, Suite
from core_rl_ray.config import RayLauncherConfig
from core_rl_ray.group import RayGroup
from core_rl_ray.placement import Wish

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[4]
CHECKS = ("forward_pass", "export", "step", "same_on_every_rank", "resume")


class RayBench(Bench):
    """Engines of the conformance suite in actors."""

    def __init__(self, cluster):
        super().__init__()
        self.cluster = cluster

    def group(self, world_size):
        if world_size not in self._groups:
            wish = Wish.of(RayLauncherConfig(workers=world_size, device="cpu"), self.cluster)
            self._groups[world_size] = RayGroup(self.cluster, wish, env={}, wait_s=60)
        return self._groups[world_size]


def test_fsdp_on_two_actors_is_the_local_engine(cluster):
    """Log-probabilities, loss, gradient norm, weights before and after a step, and a checkpoint that goes on."""
    pytest.importorskip("core_rl_fsdp")
    bench = RayBench(cluster)
    suite = Suite(Subject(engine="fsdp", options={"device": "cpu"}, world_sizes=(2,)), bench)
    outcomes = [suite.outcome(Case(check=check, model="llama", world_size=2)) for check in CHECKS]
    bench.close()

    assert [(one.case.check, one.status, one.reason) for one in outcomes] == [(check, "passed", "") for check in CHECKS]
    assert sum(len(one.measured) for one in outcomes) > 10


def test_a_run_differs_by_its_launcher_alone(tmp_path):
    """`core-rl train` with two Ray workers logs what it logs with two local ones."""
    pytest.importorskip("core_rl_fsdp")
    logged = {}
    for launcher in ("local", "ray"):
        settings = {
            "run.dir": tmp_path,
            "run.name": launcher,
            "run.steps": 2,
            "launcher": f"{{name: {launcher}, workers: 2}}",
            "train_engine": "{name: fsdp, lr: 2e-3, device: cpu}",
        }
        words = [f"{name}={value}" for name, value in settings.items()]
        command = [sys.executable, "-m", "core_rl", "train", "examples/algorithms/sft.yaml", *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

        assert done.returncode == 0, done.stdout + done.stderr
        metrics = tmp_path / launcher / "latest" / "metrics.jsonl"
        logged[launcher] = [json.loads(line) for line in metrics.read_text().splitlines()]

    losses = {name: [row["loss"] for row in rows if "loss" in row] for name, rows in logged.items()}
    assert len(losses["local"]) == 2
    assert losses["ray"] == pytest.approx(losses["local"], rel=1e-6)
