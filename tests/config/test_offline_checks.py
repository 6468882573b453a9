"""Run files of offline algorithms: what nothing would read is refused, with its place; and rows that cannot be learnt from."""

from __future__ import annotations

import pytest

from core_rl.capabilities import check_capabilities
from core_rl.config.load import load_run_file
from core_rl.config.show import to_yaml
from core_rl.errors import CapabilityError, ConfigError

BASE = """
model: {path: x}
data: {name: conversations, path: rows.jsonl}
algorithm: sft
"""


@pytest.fixture
def load(tmp_path):
    def loaded(text="", *overrides):
        file = tmp_path / "run.yaml"
        file.write_text(BASE + text)
        return load_run_file(file, overrides)

    return loaded


def problems(load, text="", *overrides):
    with pytest.raises(ConfigError) as found:
        load(text, *overrides)
    return [f"{problem.path}: {problem.message}" for problem in found.value.problems]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("rewards: [{name: format, pattern: x}]", "rewards"),
        ("sampling: {max_new_tokens: 3}", "sampling"),
        ("rollout_engine: {name: local, max_running_sequences: 3}", "rollout_engine"),
        ("workflow: {name: single_turn, system_prompt: hello}", "workflow"),
        ("run: {long_prompts: stop}", "run.long_prompts"),
        ("run: {reward_timeout_s: 3}", "run.reward_timeout_s"),
        ("eval: {n: 3}", "eval.n"),
        ("eval: {sampling: {top_p: 0.5}}", "eval.sampling"),
    ],
)
def test_what_only_sampling_reads_is_refused(load, text, path):
    """In one line that names the key and the algorithm."""
    assert problems(load, text) == [
        f"{path}: nothing is sampled by sft, an offline algorithm, so that nothing reads this: leave it out"
    ]


def test_a_short_context_is_no_matter_of_sampling(load):
    """The bound on completions concerns no offline run."""
    assert load("", "model.max_length=8").model.max_length == 8


def test_a_resolved_run_file_is_read_again(load, tmp_path):
    """It has every default written out, those of sampling too."""
    resolved = tmp_path / "config.yaml"
    resolved.write_text(to_yaml(load()))

    assert load_run_file(resolved) == load()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["data={name: jsonl, path: x}"],
            "data: jsonl gives prompts, and sft learns from rows of conversations, pairs, labelled",
        ),
        (
            ["data={name: pairs, path: x}", "algorithm.encoding.train_on=all"],
            "algorithm.encoding.train_on: only conversations read this",
        ),
        (["algorithm.reference=precomputed"], "algorithm.reference: no loss reads log-probabilities of a reference"),
        (["eval_data={name: pairs, path: y}"], "eval_data: its rows are pairs, and those of data are conversations"),
        (
            ["algorithm.extra_losses=[bradley_terry]", "data={name: pairs, path: x}"],
            "algorithm.extra_losses: one loss reads values and another log-probabilities",
        ),
    ],
)
def test_rows_and_losses_that_do_not_go_together(load, overrides, message):
    """Each with its place and what to do."""
    found = problems(load, "", *overrides)

    assert len(found) == 1
    assert found[0].startswith(message)


def test_a_loss_of_pairs_needs_pairs(load):
    """Refused with the capabilities, before a model is loaded."""
    with pytest.raises(CapabilityError, match=r"needs pairs .*data: conversations does not provide it"):
        check_capabilities(load("", "algorithm.name=reward_model"))
