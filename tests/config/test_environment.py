"""Variables of the environment inside scalars."""

from __future__ import annotations

import pytest

from core_rl.config.environment import escape, substitute


@pytest.fixture(autouse=True)
def _variables(monkeypatch):
    monkeypatch.setenv("SEED", "7")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("MISSING", raising=False)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("${SEED}", "7"),
        ("run-${SEED}-${SEED}", "run-7-7"),
        ("${MISSING:-a b}", "a b"),
        ("${MISSING:-}", ""),
        ("${EMPTY:-x}", "x"),
        ("${EMPTY}", ""),
        ("$${SEED}", "${SEED}"),
        ("$$${SEED}", "$${SEED}"),
        ("$SEED {SEED} $", "$SEED {SEED} $"),
    ],
)
def test_variables_defaults_and_the_escape(text, result):
    """As in a shell, `:-` also stands in for an empty variable."""
    found = substitute(text)

    assert (found.text, found.mistakes) == (result, ())


@pytest.mark.parametrize("text", ["${", "a ${b", "${1}", "${A B}", "${A-b}"])
def test_what_begins_no_variable_is_a_mistake(text):
    """Rather than text that nobody wanted."""
    assert len(substitute(text).mistakes) == 1


@pytest.mark.parametrize("text", ["${A}", "$${A}", "$$", "a${", "${A:-$}"])
def test_escaped_text_reads_back_as_itself(text):
    """For `config show`."""
    found = substitute(escape(text))

    assert (found.text, found.mistakes) == (text, ())


def test_a_whole_scalar_is_typed_like_any_other(run_file):
    """Plain or in quotes, which flow style needs; and it is text where text is expected."""
    file = run_file('run:\n  seed: ${SEED}\n  name: ${SEED}\n  dir: out-${SEED}\ntrain_engine: {lr: "${LR:-1e-5}"}\n')

    assert (file.run.seed, file.run.name, file.run.dir, file.train_engine.options.lr) == (7, "7", "out-7", 1e-5)


def test_part_of_a_scalar_makes_text(problems):
    """`1${SEED}` is no number."""
    assert problems("run:\n  seed: 1${SEED}\n") == [
        "run.yaml:5:9: run.seed: expected an integer, found text '17' (write 17, without quotes)"
    ]


def test_an_empty_variable_is_null_where_null_is_possible(run_file):
    """And empty text where only text is."""
    file = run_file("run: {name: '${EMPTY}'}\n", "model.tokenizer=${EMPTY}")

    assert (file.run.name, file.model.tokenizer) == ("", None)


def test_variables_in_overrides(run_file, problems):
    """The same rules; a missing one is told with the override."""
    assert run_file("", "run.seed=${SEED}").run.seed == 7
    assert problems("", "run.seed=${MISSING}")[0].startswith(
        "run.seed=${MISSING}: run.seed: environment variable MISSING is not set"
    )
