"""Real distributions in a temporary folder on `sys.path`: a module, and a dist-info folder, as pip leaves them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import pytest

GOOD = """
from core_rl import Component, hookimpl

@hookimpl
def core_rl_losses():
    return [Component(name="{name}", target="{module}_impl:Loss", summary="a loss")]
"""


@attrs.frozen
class Site:
    """A folder like site-packages."""

    path: Path

    def module(self, name: str, code: str) -> None:
        target = self.path / (name.replace(".", "/") + ".py")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(code, encoding="utf-8")

    def add(
        self,
        distribution: str,
        code: str | None = None,
        *,
        version: str = "1.0",
        requires: Sequence[str] = ("core-rl>=0.1,<0.2",),
        entry_points: str | None = None,
        metadata: str | None = None,
    ) -> str:
        """Install a plugin whose module and entry point are called as the distribution, with underscores. The name comes back."""
        name = distribution.replace("-", "_")
        info = self.path / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        lines = [f"{name} = {name}"] if entry_points is None else [entry_points]
        (info / "entry_points.txt").write_text("\n".join(["[core_rl.plugins]", *lines, ""]), encoding="utf-8")
        fields = ["Metadata-Version: 2.1", f"Name: {distribution}", f"Version: {version}"]
        fields += [f"Requires-Dist: {requirement}" for requirement in requires]
        (info / "METADATA").write_text("\n".join(fields) + "\n" if metadata is None else metadata, encoding="utf-8")
        if code is not None:
            self.module(name, code)
        return name

    def add_good(self, distribution: str = "good-plugin", loss: str = "good_loss") -> None:
        """A plugin with one loss whose target can be built."""
        name = distribution.replace("-", "_")
        self.add(distribution, GOOD.format(name=loss, module=name))
        self.module(f"{name}_impl", "class Loss:\n    def __call__(self, logprobs, batch): ...\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """An empty folder at the head of `sys.path`; what was imported out of it is forgotten afterwards."""
    monkeypatch.delenv("CORE_RL_PLUGINS_ALLOW", raising=False)
    monkeypatch.delenv("CORE_RL_PLUGINS_BLOCK", raising=False)
    path = tmp_path / "site"
    path.mkdir()
    monkeypatch.syspath_prepend(str(path))
    yield Site(path)
    for name, module in list(sys.modules.items()):
        if str(tmp_path) in str(getattr(module, "__file__", None) or getattr(module, "__path__", "")):
            del sys.modules[name]
