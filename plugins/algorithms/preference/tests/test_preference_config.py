"""The named algorithms, and what is refused before anything is loaded."""

from __future__ import annotations

import pytest

from core_rl.capabilities import check_capabilities
from core_rl.config.load import load_run_file
from core_rl.errors import CapabilityError, ConfigError

LOSS_TYPES = {
    "dpo": "sigmoid",
    "cdpo": "sigmoid",
    "ld_dpo": "sigmoid",
    "robust_dpo": "robust",
    "ipo": "ipo",
    "exo": "exo_pair",
    "nca": "nca_pair",
    "bco": "bco_pair",
    "sppo": "sppo_hard",
    "apo_zero": "apo_zero",
    "apo_down": "apo_down",
    "discopop": "discopop",
    "aot": "aot",
    "aot_unpaired": "aot_unpaired",
    "cpo": "sigmoid",
}


def load(tmp_path, algorithm, *overrides, data="pairs"):
    file = tmp_path / "run.yaml"
    model = 'model: {init: random, tokenizer: "characters:01", config: {model_type: llama}}'
    file.write_text(f"{model}\ndata: {{name: {data}, path: rows.jsonl}}\nalgorithm: {algorithm}\n")
    return load_run_file(file, overrides)


@pytest.mark.parametrize(("name", "loss_type"), LOSS_TYPES.items())
def test_variants_are_dpo_with_another_loss_type(tmp_path, name, loss_type):
    """Mean over pairs; CPO has the likelihood of the chosen completion beside it."""
    options = load(tmp_path, name).algorithm.options

    assert (options.loss.name, options.loss.options.loss_type) == ("cpo" if name == "cpo" else "dpo", loss_type)
    assert options.aggregation.name == "prompt-mean"
    assert [one.name for one in options.extra_losses] == (["nll"] if name == "cpo" else [])


@pytest.mark.parametrize(
    ("name", "beta"),
    [
        ("dpo", 0.1),
        ("ipo", 0.1),
        ("exo", 0.1),
        ("nca", 0.01),
        ("bco", 0.01),
        ("sppo", 0.001),
        ("discopop", 0.05),
        ("aot", 0.01),
    ],
)
def test_each_has_its_papers_strength(tmp_path, name, beta):
    """beta differs by two orders of magnitude between the papers."""
    assert load(tmp_path, name).algorithm.options.loss.options.beta == beta


def test_an_option_of_a_variant_leaves_the_variant(tmp_path):
    """`loss: {beta: …}` of ipo is still ipo."""
    loss = load(tmp_path, "{name: ipo, loss: {beta: 0.3, length: mean}}").algorithm.options.loss.options

    assert (loss.loss_type, loss.beta, loss.length) == ("ipo", 0.3, "mean")
    assert (
        loss.formula()
        == "l = (a - b - 1/(2 beta))^2; D = beta (a - b), a = mean log pi/pi_ref of chosen, b of rejected, beta = 0.3"
    )


@pytest.mark.parametrize(
    ("name", "aggregation", "extra"),
    [("simpo", "prompt-mean", []), ("orpo", "prompt-mean", ["nll"]), ("kto", "seq-mean-token-mean", [])],
)
def test_others_have_losses_of_their_own(tmp_path, name, aggregation, extra):
    """And their own means."""
    options = load(tmp_path, name, data="labelled" if name == "kto" else "pairs").algorithm.options

    assert (options.loss.name, options.aggregation.name) == (name, aggregation)
    assert [one.name for one in options.extra_losses] == extra


@pytest.mark.parametrize(
    ("algorithm", "overrides", "data", "message"),
    [
        (
            "{name: dpo, aggregation: token-mean}",
            (),
            "pairs",
            r"algorithm\.aggregation: loss dpo is a mean over pairs, and token-mean is another",
        ),
        ("{name: kto, aggregation: token-mean}", (), "labelled", r"loss kto is a mean over rows, and token-mean is another"),
        ("kto", ("run.prompts_per_step=1",), "labelled", r"run\.prompts_per_step: loss kto compares the rows of a step"),
        ("aot", ("run.prompts_per_step=1",), "pairs", r"run\.prompts_per_step: loss dpo compares the rows of a step"),
        (
            "{name: ld_dpo, reference: precomputed, loss: {ld_reference: true}}",
            (),
            "pairs",
            r"algorithm\.reference: ld_reference weighs single tokens",
        ),
        ("{name: kto, reference: precomputed}", (), "labelled", r"algorithm\.reference: kto scores mismatched rows"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, algorithm, overrides, data, message):
    """One line each."""
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, algorithm, *overrides, data=data)


@pytest.mark.parametrize(("algorithm", "data", "needs"), [("dpo", "labelled", "pairs"), ("kto", "pairs", "labelled")])
def test_the_data_has_to_be_of_the_right_kind(tmp_path, algorithm, data, needs):
    """Pairs for DPO, labelled rows for KTO."""
    with pytest.raises(CapabilityError, match=f"needs {needs}"):
        check_capabilities(load(tmp_path, algorithm, data=data))
