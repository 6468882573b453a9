"""Every rejection in a run file: it resolves and builds, runs when what it needs is known, and says what it computes."""

from __future__ import annotations

import sys
from subprocess import run

import pytest

from core_rl.capabilities import LATE
from core_rl.config.load import load_run_file
from core_rl.errors import ConfigError
from core_rl.loops.parts import proximal_mode
from core_rl.plugins.build import build
from core_rl_rejections.plugin import core_rl_rejections

EARLY = {"zero_variance", "truncated", "shared_prefix", "accept_if"}
COMPARE = {"ratio_band", "tis", "mis", "icepop", "seq_mask_tis", "outlier_veto", "opsm"}
NAMES = [one.name for one in core_rl_rejections()]


def entry(name):
    return "{name: accept_if, function: math:isnan}" if name == "accept_if" else name


@pytest.fixture
def load(tmp_path):
    def load(algorithm):
        file = tmp_path / "run.yaml"
        model = 'model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}'
        data = "data: {name: jsonl, path: rows.jsonl}"
        file.write_text(f"{model}\n{data}\nrewards: [math]\nalgorithm: {algorithm}\n")
        return load_run_file(file).algorithm.options

    return load


def test_these_are_all():
    """Those that look at text and rewards alone, those that compare two policies, and the one of entropies."""
    assert set(NAMES) == EARLY | COMPARE | {"high_entropy"}


@pytest.mark.parametrize("name", NAMES)
def test_each_is_chosen_by_its_name(load, name):
    """Built with its defaults, with a formula and a summary."""
    options = load(f"{{name: grpo, rejections: [{entry(name)}]}}")
    (chosen,) = options.rejections

    assert callable(build(chosen))
    assert chosen.component.summary
    assert chosen.options.formula()


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_once_what_it_needs_is_known(load, name):
    """Early ones save the forward pass of what they drop; whoever compares policies has the old one recomputed."""
    options = load(f"{{name: grpo, rejections: [{entry(name)}]}}")

    assert bool(options.rejections[0].component.needs & LATE) == (name not in EARLY)
    assert (proximal_mode(options) == "recompute") == (name in COMPARE or name == "high_entropy")


def test_they_stand_in_the_order_of_the_list(load):
    """Each twice, if that is wanted."""
    names = ["outlier_veto", "ratio_band", "zero_variance", "ratio_band"]

    assert [one.name for one in load(f"{{name: grpo, rejections: [{', '.join(names)}]}}").rejections] == names


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (
            "rejections: [tis, truncated, icepop]",
            r"algorithm\.rejections\.2: tis weighs by pi_old/mu already, and icepop would",
        ),
        ("rejections: [seq_mask_tis, mis]", r"algorithm\.rejections\.1: seq_mask_tis weighs"),
        ("rejections: [{name: ratio_band, action: clamp}, tis]", r"algorithm\.rejections\.1: ratio_band weighs"),
        (
            "proximal: rollout, rejections: [truncated, tis]",
            r"algorithm\.rejections\.1: tis compares pi_old with mu, and proximal: rollout",
        ),
        ("proximal: rollout, rejections: [opsm]", r"algorithm\.rejections\.0: opsm compares"),
        (
            "proximal: loglinear, rejections: [mis]",
            r"algorithm\.proximal: loglinear knows old log-probabilities only in training",
        ),
        ("rejections: [{name: tis, lower: 3, upper: 2}]", r"upper must be at least lower, 3, found 2"),
        ("rejections: [{name: mis, upper: 0}]", r"upper"),
        ("rejections: [{name: high_entropy, share: 0}]", r"share"),
        ("rejections: [{name: opsm, delta: -1}]", r"delta"),
        ("rejections: [{name: shared_prefix, min_tokens: 0}]", r"min_tokens"),
        ("rejections: [accept_if]", r"function"),
    ],
)
def test_what_makes_no_sense_is_refused(load, algorithm, message):
    """One line each, before anything is loaded."""
    with pytest.raises(ConfigError, match=message):
        load(f"{{name: grpo, {algorithm}}}")


@pytest.mark.parametrize(
    "algorithm",
    [
        "rejections: [{name: ratio_band, action: zero}, tis]",
        "rejections: [outlier_veto, {name: ratio_band, level: sequence}, icepop]",
        "proximal: rollout, rejections: [zero_variance, truncated]",
    ],
)
def test_what_makes_sense_is_not(load, algorithm):
    """A band beside a weight; rewards under any proximal policy."""
    assert load(f"{{name: grpo, {algorithm}}}").rejections


def test_listing_needs_no_torch():
    """Components and options are known without it."""
    code = "import core_rl_rejections.plugin as p, core_rl_rejections.config, core_rl_rejections.checks, sys; p.core_rl_rejections(); "
    code += "p.core_rl_losses(); assert 'torch' not in sys.modules"

    assert run([sys.executable, "-c", code], check=False).returncode == 0
