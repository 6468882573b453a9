"""The algorithms as sets of defaults, in a run file."""

from __future__ import annotations

import sys
from subprocess import run

import pytest

from core_rl.capabilities import check_capabilities
from core_rl.config.load import load_run_file
from core_rl.plugins.references import load_reference
from core_rl_sft.config import DftConfig, NllConfig
from core_rl_sft.plugin import core_rl_algorithms, core_rl_losses


@pytest.fixture
def load(tmp_path):
    def loaded(text):
        file = tmp_path / "run.yaml"
        file.write_text(f"model: {{path: x}}\n{text}")
        run_file = load_run_file(file)
        check_capabilities(run_file)
        return run_file.algorithm.options

    return loaded


@pytest.mark.parametrize("name", ["sft", "dft"])
def test_the_defaults(load, name):
    """The mean over tokens, of what the assistant says, and rows that are too long are left out."""
    options = load(f"data: {{name: conversations, path: x}}\nalgorithm: {name}\n")

    assert options.loss.name == {"sft": "nll", "dft": "dft"}[name]
    assert (options.aggregation.name, options.extra_losses, options.reference) == ("token-mean", (), "frozen")
    assert (options.encoding.train_on, options.encoding.too_long, options.loss.options.on) == ("assistant", "drop", "chosen")


def test_sft_learns_from_pairs_too(load):
    """The preferred completions, unless `on` is all."""
    options = load("data: {name: pairs, path: x}\nalgorithm: {name: sft, loss: {name: nll, on: all}}\n")

    assert options.loss.options == NllConfig(on="all")


def test_formulas_say_what_is_minimised():
    """For `core-rl config show --explain`."""
    assert (NllConfig().formula(), DftConfig().formula()) == ("l = -log pi", "l = -sg(pi) log pi")


def test_every_component_can_be_loaded():
    """Targets and options classes are where the components say."""
    components = [*core_rl_algorithms(), *core_rl_losses()]

    assert [component.name for component in components] == ["sft", "dft", "nll", "dft"]
    for component in components:
        options = load_reference(component.config)()
        assert component.target == component.config or load_reference(component.target)(options)


def test_options_are_read_without_torch():
    """Listing and checking must be quick."""
    code = "import sys, core_rl_sft.plugin, core_rl_sft.config; sys.exit('torch' in sys.modules)"

    assert run([sys.executable, "-c", code], check=False).returncode == 0
