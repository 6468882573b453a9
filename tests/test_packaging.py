"""The distributions of the checkout: one version, one layout, requirements that are bounded and pinned, listing without torch."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import core_rl

ROOT = Path(__file__).resolve().parent.parent
PLUGINS = sorted(path.parent for path in ROOT.glob("plugins/*/*/pyproject.toml"))
DISTRIBUTIONS = [ROOT, *PLUGINS]
HEAVY = ("torch", "transformers", "vllm", "sglang", "megatron", "deepspeed", "ray", "peft", "datasets", "numpy")


def project(path: Path) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((path / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def requirements(path: Path, *, extras: bool = True) -> list[Requirement]:
    table = project(path)
    groups = [table.get("dependencies", []), *(table.get("optional-dependencies", {}).values() if extras else [])]
    if path == ROOT and extras:
        groups += tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"].values()
    return [Requirement(text) for group in groups for text in group]


def ours() -> dict[str, Path]:
    return {canonicalize_name(project(path)["name"]): path for path in DISTRIBUTIONS}


def constraints() -> dict[str, Version]:
    files = [*sorted(ROOT.glob("constraints-*.txt")), ROOT / "constraints.txt"]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    lines = [line for line in text.splitlines() if line and line[0] != "#"]
    pairs = [line.split("==") for line in lines]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def identity(path: Path) -> str:
    return path.name


each_plugin = pytest.mark.parametrize("plugin", PLUGINS, ids=identity)
each_distribution = pytest.mark.parametrize("path", DISTRIBUTIONS, ids=identity)


def test_there_are_plugins() -> None:
    """The tests of every plugin below do run."""

    assert len(PLUGINS) >= 11


@each_plugin
def test_versions_move_in_lockstep(plugin: Path) -> None:
    """A plugin has the core's version, and asks for this core and none of the next minor version."""
    (core,) = [requirement for requirement in requirements(plugin, extras=False) if requirement.name == "core-rl"]
    version = Version(core_rl.__version__)
    bounds = {(bound.operator, bound.version) for bound in core.specifier}

    assert project(plugin)["version"] == core_rl.__version__
    assert bounds == {(">=", core_rl.__version__), ("<", f"{version.major}.{version.minor + 1}")}


def test_extras_name_the_plugins_of_this_version() -> None:
    """Every plugin is an extra of the core under its entry point's name, with its backend, at exactly this version."""
    extras = project(ROOT)["optional-dependencies"]
    for plugin in PLUGINS:
        table = project(plugin)
        backend = "[backend]" if "backend" in table.get("optional-dependencies", {}) else ""
        (name,) = table["entry-points"]["core_rl.plugins"]

        assert extras.get(name) == [f"{table['name']}{backend}=={core_rl.__version__}"]


def test_extras_name_what_exists() -> None:
    """No extra names a plugin that is not there, or an extra that the plugin does not have."""
    for requirement in requirements(ROOT):
        if canonicalize_name(requirement.name).startswith("core-rl"):
            path = ours().get(canonicalize_name(requirement.name))

            assert path is not None, f"{requirement.name} is no distribution of this checkout"
            assert requirement.extras <= set(project(path).get("optional-dependencies", {}))


@each_distribution
def test_dependencies_have_a_lower_bound_and_a_tested_version(path: Path) -> None:
    """Every requirement from elsewhere says from which version on, and a file of constraints names a version that satisfies it."""
    pins = constraints()
    for requirement in requirements(path):
        if canonicalize_name(requirement.name) in ours():
            continue

        assert {bound.operator for bound in requirement.specifier} & {">=", "==", "~="}, f"{requirement} has no lower bound"
        assert canonicalize_name(requirement.name) in pins, f"{requirement.name} is not in constraints.txt"
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)])


@each_plugin
def test_plugins_have_one_layout(plugin: Path) -> None:
    """`core-rl-x`, `core_rl_x`, one entry point to its plugin module, an empty `__init__`, `py.typed`, a README, tests."""
    table = project(plugin)
    name = table["name"].removeprefix("core-rl-").replace("-", "_")
    package = plugin / "src" / f"core_rl_{name}"

    assert plugin.name == name
    assert table["entry-points"]["core_rl.plugins"] == {name: f"core_rl_{name}.plugin"}
    assert (package / "__init__.py").read_bytes() == b""
    assert (package / "py.typed").is_file()
    assert (package / "plugin.py").is_file()
    assert (plugin / "README.md").stat().st_size > 200
    assert list((plugin / "tests").glob("test_*.py"))
    assert [path.name for path in (plugin / "src").iterdir() if path.suffix != ".egg-info"] == [package.name]


@each_plugin
def test_plugin_modules_are_light(plugin: Path) -> None:
    """`plugin.py` and `config.py` import nothing heavy, in a process of their own."""
    package = next((plugin / "src").glob("core_rl_*"))
    modules = [
        f"{package.name}.{name}" for name in ("plugin", "config") if name == "plugin" or (package / f"{name}.py").is_file()
    ]
    code = f"import {', '.join(modules)}, sys; print(*(sys.modules.keys() & set({HEAVY!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


@each_plugin
def test_options_are_frozen_attrs_classes(plugin: Path) -> None:
    """Every class in `config.py` says `frozen`, so that options can be shared between threads and processes."""
    for path in plugin.glob("src/*/config.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                assert any("frozen" in ast.unparse(decorator) for decorator in node.decorator_list), f"{path}: {node.name}"


def test_no_file_knows_the_machine_it_was_made_on() -> None:
    """No tracked file holds this checkout's place or somebody's home folder."""
    places = re.compile(rf"{re.escape(str(ROOT))}\b|/home/\w+/|/root/|/Users/\w+/".encode())
    found = [path for path in tracked_files() if path != Path(__file__).resolve() and places.search(path.read_bytes())]

    assert found == []


def test_constraints_pin_every_line() -> None:
    """constraints.txt holds `name==version` lines alone, each name once, and torch first: it is installed first."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and line[0] != "#"]

    assert all(re.fullmatch(r"[\w.-]+==[\w.+]+", line) for line in lines)
    assert len({line.split("==")[0] for line in lines}) == len(lines)
    assert lines[0].startswith("torch==")
