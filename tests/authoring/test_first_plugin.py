"""docs/plugins/first.md: every command of it, in an environment of its own, as a new author would type them."""

from __future__ import annotations

import os
import re
import site
import subprocess
import venv
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "plugins" / "first.md"
PROGRAMS = {"core-rl": "core_rl", "pytest": "pytest", "pip": "pip", "mypy": "mypy"}


def steps():
    """(command, what must be in its output), in order."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """What is installed here can be seen in it, and what is installed in it stays in it. There is no package index."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "outside.pth").write_text(
        "".join(f"import site; site.addsitedir({path!r})\n" for path in site.getsitepackages())
    )
    for program, module in PROGRAMS.items():
        script = folder / "bin" / program
        script.write_text(f'#!/bin/sh\nexec {folder}/bin/python -m {module} "$@"\n')
        script.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "CORE_RL"))}
    return kept | {
        "PATH": f"{folder}/bin:{os.environ['PATH']}",
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to say that there is none
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }


def test_every_command(environment, tmp_path):
    """Each ends well and prints what the page says."""
    where, done = tmp_path, []
    for command, expected in steps():
        if command.startswith("cd "):
            where = where / command.removeprefix("cd ")
            continue
        run = subprocess.run(
            ["sh", "-c", command], cwd=where, env=environment, capture_output=True, text=True, timeout=250, check=False
        )
        assert run.returncode == 0, f"{command}\n{run.stdout[-3000:]}\n{run.stderr[-3000:]}"
        missing = [line for line in expected if line not in run.stdout + run.stderr]
        assert not missing, f"{command} does not print {missing}:\n{run.stdout[-3000:]}"
        done.append(command)

    assert len(done) >= 8
    assert done[-1].startswith("core-rl train")


def test_what_the_page_shows_is_there(tmp_path):
    """Every file of its table."""
    from core_rl.authoring.render import checked, rendered

    named = re.findall(r"^\| `([\w/.-]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert len(named) == 5
    assert set(named) <= set(rendered(checked("soft-clip", "loss")))
