"""A catalogue of toy components, and a run file in a folder of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core_rl.config.load import load
from core_rl.errors import ConfigError
from core_rl.plugins.catalogue import Catalogue
from core_rl.plugins.distributions import Candidate, Installed

BASE = """\
model: {path: toy}
data: {name: rows, path: toy.jsonl}
algorithm: grpo
"""


@pytest.fixture(autouse=True)
def _toys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The toy package can be imported, and file names in messages are short."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "toys"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True, scope="module")
def _forget_toys() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "core_rl_toy"]:
        del sys.modules[name]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Installed:
    """As if the toy plugin were all that is installed."""
    toy = Candidate(distribution="core-rl-toy", version="1.0", entry_point="toy", value="core_rl_toy.plugin")
    found = Installed(candidates=(toy,), broken=())
    monkeypatch.setattr("core_rl.plugins.catalogue.installed_plugins", lambda: found)
    monkeypatch.setattr("core_rl.config.recipes.installed_plugins", lambda: found)
    return found


_discovered: list[Catalogue] = []


@pytest.fixture
def catalogue(installed: Installed) -> Catalogue:
    """With hooks of its own, which a test may add to."""
    if not _discovered:
        assert installed.candidates
        _discovered.append(Catalogue.discover())
    return _discovered[0].restricted()


@pytest.fixture
def loaded(catalogue: Catalogue) -> Callable[..., Any]:
    """Load a text as `run.yaml`, after a complete base unless told otherwise."""

    def call(text: str, *overrides: str, base: str = BASE) -> Any:
        Path("run.yaml").write_text(base + text, encoding="utf-8")
        return load("run.yaml", overrides, catalogue=catalogue)

    return call


@pytest.fixture
def run_file(loaded: Callable[..., Any]) -> Callable[..., Any]:
    return lambda text, *overrides, base=BASE: loaded(text, *overrides, base=base).run_file


@pytest.fixture
def problems(loaded: Callable[..., Any]) -> Callable[..., list[str]]:
    """The mistakes of a text, as lines."""

    def call(text: str, *overrides: str, base: str = BASE) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            loaded(text, *overrides, base=base)
        return [str(problem) for problem in caught.value.problems]

    return call
