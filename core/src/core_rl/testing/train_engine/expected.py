"""What is expected: the `local` engine in float32 on the CPU of this process, computed once for all suites of a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from core_rl.plugins.build import build_component
from core_rl.plugins.catalogue import Catalogue
from core_rl.plugins.references import load_reference

if TYPE_CHECKING:
    from core_rl.hf.spec import ModelSpec
    from core_rl.roles.train import TrainEngine
    from core_rl.testing.train_engine.setting import Setting

T = TypeVar("T")
Script = Callable[["TrainEngine"], T]
"""What is done with an engine that is set up, and what is kept of it. A function at the top of a module: it is looked up by identity."""

_RESULTS: dict[tuple[Any, ...], Any] = {}


def expected(script: Script[T], spec: ModelSpec, setting: Setting) -> T:
    """What the reference engine makes of a script. Not to be changed by the caller."""
    key = (script, repr(spec), setting)
    if key not in _RESULTS:
        engine = _reference(spec, setting)
        _RESULTS[key] = script(engine)
        engine.close()
    result: T = _RESULTS[key]
    return result


def _reference(spec: ModelSpec, setting: Setting) -> TrainEngine:
    component = Catalogue.discover().find("train_engine", "local").component
    assert component.config is not None
    options = load_reference(component.config)(device="cpu", **setting.options())
    engine: TrainEngine = build_component(component, options, setting.context(spec))
    engine.setup()
    return engine
