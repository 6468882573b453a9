"""The conformance classes of the engines that are installed here: what their own tests run."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from _cases import ROOT

from core_rl.errors import UserError
from core_rl.testing.train_engines import HALF, TrainEngineConformance

PATTERN = "plugins/engines/*/tests/test_*_conformance.py"

Suites = dict[str, type[TrainEngineConformance]]


def installed_suites(only: Sequence[str] | None) -> Suites:
    """By title, `local` first; an engine or a backend that is not installed is left out with a word. `only`: engines or titles."""
    found: Suites = {}
    for path in sorted(ROOT.glob(PATTERN), key=lambda path: (path.parts[-3] != "local", path)):
        for suite in _classes(path):
            try:
                title = suite.subject().title
            except UserError as error:
                print(f"{path.name}: {suite.__name__} is left out: {error}", flush=True)
                continue
            if not only or {suite.component, title} & set(only):
                found[title] = suite
    return found


def on_gpu(suites: Suites, dtype: str) -> Suites:
    """The same on one GPU, in this precision; without those that have no layout of one rank, and without CPU shims."""
    found: Suites = {}
    for suite in suites.values():
        if 1 not in suite.world_sizes:
            continue
        changes = {
            "__module__": suite.__module__,
            "options": {**suite.options, "device": "cuda"},
            "world_sizes": (1,),
            "dtype": dtype,
            "tolerances": suite.tolerances if dtype == "float32" else HALF,
            "prepare": None,
        }
        moved = type(suite.__name__, (suite,), changes)
        found[moved.subject().title] = moved
    return found


def _classes(path: Path) -> Iterator[type[TrainEngineConformance]]:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    for name, value in vars(module).items():
        if name.startswith("Test") and issubclass(value, TrainEngineConformance):  # as pytest finds them
            yield value
