"""The wheels that `make wheels` builds: what is in them, and that they work in fresh environments with the sources out of reach."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import core_rl

ROOT = Path(__file__).resolve().parent.parent
DISTRIBUTIONS = [ROOT, *sorted(path.parent for path in ROOT.glob("plugins/*/*/pyproject.toml"))]
SUFFIXES = {".py", ".typed", ".template"}
"""What a package may hold; another suffix is a stray until it stands here."""


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All wheels, as `make wheels` builds them."""
    folder = tmp_path_factory.mktemp("wheelhouse")
    done = run([sys.executable, ROOT / "scripts" / "make_wheels.py", folder], cwd=ROOT)
    assert f"{len(DISTRIBUTIONS)} wheels in " in done.stdout
    return folder


def run(command: list[Any], *, cwd: Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """A command that must succeed, with nothing in its environment that leads to the sources."""
    environment = {name: value for name, value in os.environ.items() if not re.match(r"PYTHON|VIRTUAL_ENV|CORE_RL", name)}
    environment |= {"OMP_NUM_THREADS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    texts = [str(part) for part in command]
    done = subprocess.run(texts, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done


def contents(wheel: Path) -> tuple[list[str], Message, dict[str, str]]:
    """(files of the package, metadata, the other files of the dist-info folder)."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        info = {name.partition("/")[2]: archive.read(name).decode() for name in names if ".dist-info/" in name}
    return [name for name in names if ".dist-info/" not in name], Parser().parsestr(info["METADATA"]), info


def test_wheels_hold_their_package_and_nothing_else(wheelhouse: Path) -> None:
    """One package, typed, all of its modules; no tests, no caches, no strays."""
    for path in DISTRIBUTIONS:
        name = tomllib.loads((path / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"].replace("-", "_")
        files, _, _ = contents(wheelhouse / f"{name}-{core_rl.__version__}-py3-none-any.whl")
        source = path / ("core/src" if path == ROOT else "src")
        modules = {module.relative_to(source).as_posix() for module in source.rglob("*.py")}

        assert {file.partition("/")[0] for file in files} == {name}
        assert f"{name}/py.typed" in files
        assert {file for file in files if file.endswith(".py")} == modules
        assert {Path(file).suffix for file in files} <= SUFFIXES
        assert not [file for file in files if re.search(r"/tests?/.*\.py$|/(test_\w+|conftest)\.py$|__pycache__", file)]


def test_wheels_say_what_they_are(wheelhouse: Path) -> None:
    """One version for all, the licence, the Python, a readme; entry points as in pyproject.toml."""
    wheels = sorted(wheelhouse.iterdir())
    for wheel in wheels:
        _, metadata, info = contents(wheel)

        assert metadata["Version"] == core_rl.__version__
        assert metadata["License-Expression"] == "Apache-2.0"
        assert metadata["Requires-Python"] == ">=3.11"
        assert len(str(metadata.get_payload())) > 200
        assert re.search(r"^\[core_rl\.plugins\]\n\w+ = core_rl[\w.]*\.plugin$", info["entry_points.txt"], re.MULTILINE)
    assert len(wheels) == len(DISTRIBUTIONS)
    assert "licenses/LICENSE" in contents(wheelhouse / f"core_rl-{core_rl.__version__}-py3-none-any.whl")[2]


def test_the_same_sources_are_the_same_bytes(wheelhouse: Path, tmp_path: Path) -> None:
    """A plugin whose files have other times and rights gives the same wheel."""
    grpo = tmp_path / "grpo"
    shutil.copytree(ROOT / "plugins" / "algorithms" / "grpo", grpo, copy_function=shutil.copyfile)
    for path in grpo.rglob("*.py"):
        path.chmod(0o600)
        os.utime(path, (1_000_000_000, 1_000_000_000))
    code = "import sys; sys.path.insert(0, sys.argv[1]); import make_wheels as m; m.build(m.Path(sys.argv[2]), m.Path(sys.argv[3]))"
    run([sys.executable, "-c", code, ROOT / "scripts", grpo, tmp_path / "again"], cwd=tmp_path)
    (again,) = (tmp_path / "again").iterdir()

    assert again.read_bytes() == (wheelhouse / again.name).read_bytes()


def light() -> set[str]:
    """The core's dependencies and theirs."""
    wanted, found = ["core-rl"], set()
    while wanted:
        for text in importlib.metadata.requires(wanted.pop()) or []:
            requirement = Requirement(text)
            name = canonicalize_name(requirement.name)
            if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
                found.add(name)
                wanted.append(name)
    return found


def copy_installed(name: str, site: Path) -> None:
    """A distribution of this environment into another one, file by file: no index is asked."""
    for file in importlib.metadata.files(name) or []:
        if ".." not in file.parts and file.suffix != ".pyc":
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file.locate(), target)


def test_plugins_are_listed_without_torch(wheelhouse: Path, tmp_path: Path) -> None:
    """Core, every plugin, the light dependencies and nothing else: every plugin is listed, none is broken, and the whole can be locked."""
    venv.create(tmp_path / "fresh", symlinks=True)
    python = tmp_path / "fresh" / "bin" / "python"
    (site,) = (tmp_path / "fresh").glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps", "--no-compile"]
    run([*pip, *wheelhouse.iterdir()], cwd=tmp_path)
    for name in light():
        copy_installed(name, site)
    command = python.with_name("core-rl")
    listing = json.loads(run([command, "plugins", "list", "--json"], cwd=tmp_path).stdout)
    run([command, "plugins", "lock"], cwd=tmp_path)
    locked = tomllib.loads((tmp_path / "core-rl.lock").read_text())["plugin"]
    checked = run([command, "plugins", "lock", "--check"], cwd=tmp_path)

    assert light() >= {"attrs", "pluggy", "pyyaml", "rich"}
    assert not list(site.glob("torch*"))
    assert listing["broken"] == []
    assert len({row["plugin"] for row in listing["components"]}) == len(DISTRIBUTIONS)
    assert [one["editable"] for one in locked] == [False] * len(DISTRIBUTIONS)
    assert f"{len(DISTRIBUTIONS)} plugins as locked" in checked.stdout


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Path]:
    """The Python of an empty environment with pip; it is removed afterwards, for it grows large."""
    venv.create(tmp_path / "fresh", symlinks=True, with_pip=True)
    yield tmp_path / "fresh" / "bin" / "python"
    shutil.rmtree(tmp_path / "fresh")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_extras_train_the_tiny_example(wheelhouse: Path, fresh: Path, tmp_path: Path) -> None:
    """`pip install 'core-rl[local,grpo,math]'`, with what the example names besides, and then the example."""
    install = [fresh, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt"]
    run([*install, "torch"], cwd=tmp_path, timeout=600)  # first: the others then take the build that is there
    run([*install, "--find-links", wheelhouse, "core-rl[local,grpo,math,function,jsonl]"], cwd=tmp_path, timeout=600)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    command = [fresh.with_name("core-rl"), "train", "examples/tiny.yaml", "run.steps=4", "eval.every=2"]
    done = run(command, cwd=tmp_path, timeout=200)
    (metrics,) = tmp_path.glob("runs/tiny/2*/metrics.jsonl")
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    where = run([fresh, "-c", "import core_rl, core_rl_grpo; print(core_rl.__file__, core_rl_grpo.__file__)"], cwd=tmp_path)

    assert "Traceback" not in done.stderr
    assert [row["step"] for row in rows] == [0, 1, 2, 3, 4]
    assert rows[-1]["optim/grad_norm"] > 0
    assert where.stdout.count(str(tmp_path / "fresh")) == 2


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform != "linux", reason="sglang and megatron-core are for Linux")
def test_megatron_and_sglang_resolve(wheelhouse: Path, fresh: Path, tmp_path: Path) -> None:
    """`pip install 'core-rl[megatron,sglang]'`, a dry run: both plugins and their backends in one set of versions."""
    report = tmp_path / "report.json"
    install = [fresh, "-m", "pip", "install", "--quiet", "--dry-run", "--report", report, "--find-links", wheelhouse]
    run([*install, "core-rl[megatron,sglang]"], cwd=tmp_path, timeout=1700)
    metadata = [item["metadata"] for item in json.loads(report.read_text())["install"]]
    found = {canonicalize_name(one["name"]): one["version"] for one in metadata}

    assert {"core-rl", "core-rl-megatron", "core-rl-sglang", "megatron-core", "sglang", "torch"} <= set(found)
    for name in ("megatron", "sglang"):
        wheel = wheelhouse / f"core_rl_{name}-{core_rl.__version__}-py3-none-any.whl"
        for text in contents(wheel)[1].get_all("Requires-Dist", []):
            requirement = Requirement(text)
            assert requirement.specifier.contains(found[canonicalize_name(requirement.name)], prereleases=True), text
