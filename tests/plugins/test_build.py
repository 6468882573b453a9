"""From a selection to the object, here and in a worker; and what the manifest says of it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import attrs
import pytest

from core_rl import Component
from core_rl.config.selection import Selection
from core_rl.errors import PluginError
from core_rl.plugins.build import build, worker_form
from core_rl.plugins.catalogue import Catalogue
from core_rl.plugins.manifest import plugins_used
from core_rl.plugins.references import load_reference

MODULE = """
import attrs
@attrs.frozen(kw_only=True)
class Options:
    size: int = attrs.field(default=2, metadata={"help": "how many"})
class Engine:
    def __init__(self, *args): self.args = args
"""


def _selection(config: str | None, options: object) -> Selection:
    component = Component(name="thing", target="parts:Engine", config=config)
    return Selection(kind="train_engine", name="thing", options=options, component=component)


def test_build_gives_the_options_first(site) -> None:
    """`Target(options, ...)` with a config, `Target(...)` without."""
    site.module("parts", MODULE)
    options = load_reference("parts:Options")(size=3)

    assert build(_selection("parts:Options", options), "context").args == (options, "context")
    assert build(_selection(None, None), "context").args == ("context",)
    assert build(_selection(None, {}), "context").args == ("context",)


def test_a_worker_builds_from_a_pickled_triple(site) -> None:
    """(name, target, options) crosses a process border; the worker there discovers nothing."""
    site.module("parts", MODULE)
    selection = _selection("parts:Options", load_reference("parts:Options")(size=5))
    form = pickle.dumps(worker_form(selection.component, selection.options))
    code = (
        "import pickle, sys; from core_rl.plugins.build import build_worker_form\n"
        "engine = build_worker_form(pickle.loads(sys.stdin.buffer.read()), 'context')\n"
        "print(engine.args[0].size, engine.args[1], 'core_rl.plugins.catalogue' in sys.modules)"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        input=form,
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(site.path)},
    )

    assert done.stdout.split() == [b"5", b"context", b"False"]


def test_a_module_in_the_working_directory_is_found(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A researcher's file beside the run file needs no installation, though a console script has not that folder on its path."""
    (tmp_path / "beside_the_run.py").write_text("class Loss: ...")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])

    assert load_reference("beside_the_run:Loss").__name__ == "Loss"
    sys.modules.pop("beside_the_run")


def test_nested_objects_and_missing_ones(site) -> None:
    """A reference may go into a class; what is missing is named with the nearest name."""
    site.module("parts", "class Outer:\n    class Inner: ...")

    assert load_reference("parts:Outer.Inner").__name__ == "Inner"
    with pytest.raises(PluginError, match=r"parts:Outer\.Innr: Outer has no 'Innr'; did you mean `Inner`"):
        load_reference("parts:Outer.Innr")


def test_the_manifest_names_everything_that_is_selected(site) -> None:
    """Nested selections too, each once, with the version of its distribution; an object has none."""
    site.add_good()
    catalogue = Catalogue.discover()

    def resolved(kind: str, name: str, options: object = None) -> Selection:
        found = catalogue.find(kind, name)
        return Selection(kind=kind, name=name, options=options, component=found.component, plugin=found.plugin)

    @attrs.frozen
    class Inner:
        loss: Selection

    @attrs.frozen
    class Whole:
        algorithm: Selection
        others: tuple[Selection, ...]

    inner = Inner(resolved("loss", "good-plugin/good_loss"))
    whole = Whole(resolved("algorithm", "good_plugin_impl:Loss", inner), (resolved("loss", "good_loss"),))

    rows = plugins_used(whole, catalogue)

    assert rows == [
        {"kind": "algorithm", "name": "loss", "distribution": None, "version": None, "target": "good_plugin_impl:Loss"},
        {
            "kind": "loss",
            "name": "good_loss",
            "distribution": "good-plugin",
            "version": "1.0",
            "target": "good_plugin_impl:Loss",
        },
    ]
