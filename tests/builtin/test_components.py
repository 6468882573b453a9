"""What the core registers: names, options, launcher and weight transport."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
import torch

from core_rl.builtin.shared import Shared
from core_rl.component import Component
from core_rl.errors import RunError
from core_rl.fingerprint import fingerprint
from core_rl.plugins.build import build_component
from core_rl.plugins.catalogue import Catalogue
from core_rl.plugins.references import load_reference

EXPECTED = [
    ("logger", "console"),
    ("logger", "jsonl"),
    ("workflow", "single_turn"),
    ("launcher", "inline"),
    ("weight_transport", "shared"),
]


@pytest.mark.parametrize(("kind", "name"), EXPECTED)
def test_each_is_found_and_built_with_its_defaults(kind, name):
    """By its name, from the core's own distribution."""
    found = Catalogue.discover().find(kind, name)
    options = load_reference(found.component.config)() if found.component.config else None

    assert found.plugin == "core-rl"
    assert found.component.summary
    assert build_component(found.component, options) is not None


def test_listing_and_logging_need_no_torch():
    """The components of a run that is only looked at cost nothing."""
    code = (
        "import sys; import core_rl.builtin.plugin, core_rl.builtin.config, core_rl.builtin.console, core_rl.builtin.jsonl\n"
        "import core_rl.builtin.single_turn, core_rl.builtin.inline, core_rl.builtin.shared, core_rl.scoring\n"
        "import core_rl.run.report, core_rl.run.manifest, core_rl.run.checkpoints\n"
        "print(sorted({'torch', 'rich', 'transformers', 'numpy', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)

    assert done.stdout == "[]\n"


class Engine:
    """Trainer and sampler at once, as far as a transport sees them."""

    def __init__(self, weights, context=None):
        self.weights, self.context, self.calls = weights, context, []

    def export_weights(self):
        yield from self.weights.items()

    async def begin_update(self):
        self.calls.append("begin")

    async def end_update(self, version):
        self.calls.append(version)

    async def fingerprint(self):
        return fingerprint(self.weights.items())


def test_shared_moves_nothing_and_bumps_the_version():
    """Begin, end with the version, no bytes."""
    engine = Engine({"w": torch.randn(20, 30)})
    report = asyncio.run(Shared().sync(engine, engine, 7))

    assert engine.calls == ["begin", 7]
    assert (report.version, report.num_bytes) == (7, 0)


def test_shared_stops_the_run_when_the_sides_differ():
    """The message names the version, the tensor and the mend."""
    trainer, sampler = Engine({"w": torch.ones(3)}), Engine({"w": torch.zeros(3)})

    with pytest.raises(RunError, match=r"version 3 .* different weights: w is .*choose another weight_transport"):
        asyncio.run(Shared().sync(trainer, sampler, 3))


def test_inline_builds_in_this_process():
    """`Engine(options, context)`, whatever the component names."""
    launcher = build_component(Catalogue.discover().find("launcher", "inline").component, None)
    component = Component(name="fake", target=f"{__name__}:Engine", config=f"{__name__}:Engine")
    sys.modules[__name__] = sys.modules.get(__name__) or type(sys)(__name__)
    sys.modules[__name__].Engine = Engine
    made = launcher.train_engine(component, {"w": torch.ones(1)}, "context")

    assert (type(made), made.context) == (Engine, "context")
    assert launcher.rollout_engine(component, {}, "other").context == "other"
    assert launcher.close() is None
