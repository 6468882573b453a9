"""TRL's own environment: TRL pins what core-rl does not, and must not be measured with core-rl's choice of versions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from _cases import ROOT

VENV = ROOT / ".venv-trl"
PYTHON = VENV / "bin" / "python"
REQUIREMENT = "trl==1.16.*"


def ensure() -> Path:
    """The Python of an environment with TRL and the same torch build as core-rl's; made at the first call."""
    check = "import importlib.metadata as m; assert m.version('trl').startswith('1.16.')"
    if PYTHON.exists() and subprocess.run([PYTHON, "-c", check], capture_output=True, check=False).returncode == 0:
        return PYTHON
    print(f"Making {VENV.name} with {REQUIREMENT} (a few minutes, once)", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
    for packages in (["torch"], [REQUIREMENT]):
        _pip("install", "--quiet", "-c", _torch_pin(), *packages)
    return PYTHON


def versions() -> dict[str, str]:
    """Of what matters for the time of a step."""
    listed = subprocess.run(
        [PYTHON, "-m", "pip", "list", "--format=freeze"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    pairs = dict(line.split("==", 1) for line in listed if "==" in line)
    return {name: pairs[name] for name in ("trl", "torch", "transformers", "accelerate")}


def _torch_pin() -> Path:
    """A constraint file with torch alone: TRL takes the versions it wants of everything else."""
    pin = next(
        line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if line.startswith("torch==")
    )
    path = VENV / "constraints.txt"
    path.write_text(pin + "\n", encoding="utf-8")
    return path


def _pip(*arguments: str | Path) -> None:
    subprocess.run([PYTHON, "-m", "pip", "--disable-pip-version-check", *arguments], check=True)
