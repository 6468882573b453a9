"""Environments of the systems we compare with: each pins what core-rl does not, and is measured with its own choice of versions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
from _cases import ROOT


@attrs.frozen
class Peer:
    """A virtual environment `.venv-<name>` with one requirement and the same torch build as core-rl's."""

    name: str
    version: str
    reported: Sequence[str]
    """Distributions whose versions matter for the time of a step."""

    @property
    def folder(self) -> Path:
        return ROOT / f".venv-{self.name}"

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def ensure(self) -> Path:
        """The environment's Python; made at the first call."""
        check = f"import importlib.metadata as m; assert m.version({self.name!r}).startswith({self.version!r})"
        if (
            self.python.exists()
            and subprocess.run([self.python, "-c", check], capture_output=True, check=False).returncode == 0
        ):
            return self.python
        requirement = f"{self.name}=={self.version}.*"
        print(f"Making {self.folder.name} with {requirement} (a few minutes, once)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", self.folder], check=True)
        for package in ("torch", requirement):
            self._pip("install", "--quiet", "-c", self._torch_pin(), package)
        return self.python

    def versions(self) -> dict[str, str]:
        listed = subprocess.run(
            [self.python, "-m", "pip", "list", "--format=freeze"], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        pairs = dict(line.split("==", 1) for line in listed if "==" in line)
        return {name: pairs[name] for name in self.reported}

    def _torch_pin(self) -> Path:
        """A constraint file with torch alone: the peer takes the versions it wants of everything else."""
        lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        path = self.folder / "constraints.txt"
        path.write_text(next(line for line in lines if line.startswith("torch==")) + "\n", encoding="utf-8")
        return path

    def _pip(self, *arguments: str | Path) -> None:
        subprocess.run([self.python, "-m", "pip", "--disable-pip-version-check", *arguments], check=True)


TRL = Peer("trl", "1.16", ("trl", "torch", "transformers", "accelerate"))
VERL = Peer("verl", "0.9.1", ("verl", "torch", "tensordict"))
