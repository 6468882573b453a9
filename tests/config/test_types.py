"""Values against annotated types."""

from __future__ import annotations

from pathlib import Path

import pytest


def options(run_file, text, *overrides):
    return run_file(f"train_engine: {{name: zoo, {text}}}\n", *overrides).train_engine.options


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("flag: true", "flag", True),
        ("count: 0x10", "count", 16),
        ("rate: 3", "rate", 3.0),
        ("rate: 1e-4", "rate", 1e-4),
        ("text: yes", "text", "yes"),
        ("text: 2024-01-01", "text", "2024-01-01"),
        ("file: a/b", "file", Path("a/b")),
        ("choice: green", "choice", "green"),
        ("choice: 3", "choice", 3),
        ("maybe: ~", "maybe", None),
        ("maybe: 4", "maybe", 4),
        ("either: auto", "either", "auto"),
        ("either: 5", "either", 5),
        ("names: [a, b]", "names", ("a", "b")),
        ("names_or_none: [a]", "names_or_none", ("a",)),
        ("pair: [2, x]", "pair", (2, "x")),
        ("numbers: [1, 2.5]", "numbers", [1.0, 2.5]),
        ("some: [a, a]", "some", frozenset({"a"})),
        ("table: {a: [1, {b: x}]}", "table", {"a": [1, {"b": "x"}]}),
        ("sizes: {3: 1}", "sizes", {3: 1.0}),
        ("anything: [1, {a: b}]", "anything", [1, {"a": "b"}]),
    ],
)
def test_a_value_of_the_right_type_is_taken(run_file, text, name, value):
    """An integer is a number too; nothing else changes its type."""
    found = getattr(options(run_file, text), name)

    assert (found, type(found)) == (value, type(value))


def test_sections_inside_options(run_file):
    """Also in lists and where null is possible."""
    read = options(run_file, "corner: {x: 1}, corners: [{x: 2, y: 3}]")

    assert (read.corner.x, read.corner.y, read.corners[0].y) == (1, 0, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("flag: yes", "flag: expected true or false, found text 'yes' (write true)"),
        ("flag: 1", "flag: expected true or false, found 1"),
        ("count: 1.0", "count: expected an integer, found 1.0 (write 1)"),
        ("count: true", "count: expected an integer, found true"),
        ("count: 1_000", "count: expected an integer, found text '1_000' (write 1000)"),
        ("rate: '3'", "rate: expected a number, found text '3' (write 3, without quotes)"),
        ("rate: fast", "rate: expected a number, found text 'fast'"),
        ("text: 007", 'text: expected text, found 007 (write "007", in quotes)'),
        ("text: ~", "text: expected text, found nothing (null)"),
        ("text: [a]", "text: expected text, found a list"),
        ("choice: gren", "choice: expected one of red, green, 3, found text 'gren'; did you mean `green`?"),
        ("choice: '3'", "choice: expected one of red, green, 3, found text '3'; did you mean `3`?"),
        ("either: outo", "either: expected an integer or auto, found text 'outo'; did you mean `auto`?"),
        ("maybe: x", "maybe: expected an integer or null, found text 'x'"),
        ("names: a", "names: expected a list of texts, found text 'a' (write [a])"),
        ("names: {a: b}", "names: expected a list of texts, found a mapping"),
        ("names: [a, 1]", 'names.1: expected text, found 1 (write "1", in quotes)'),
        ("pair: [1]", "pair: expected a list of 2 entries, found 1"),
        ("table: 3", "table: expected a mapping, found 3"),
        ("sizes: {a: 1}", "sizes.a: expected an integer, found text 'a'"),
        ("corner: 3", "corner: expected a mapping or null, found 3"),
        ("corner: {y: 1}", "corner.x: this key is required: required"),
        ("corner: {x: 1, z: 2}", "corner.z: unknown key of `train_engine.corner`; known: x, y"),
        ("corners: [{x: a}]", "corners.0.x: expected an integer, found text 'a'"),
        ("small: 10", "small: must be <= 9, found 10"),
        ("large: 1", "large: large must be above small, 1"),
        ("small: 10, large: 2", "small: must be <= 9, found 10"),
    ],
)
def test_a_value_of_the_wrong_type_is_told_with_a_mend(problems, text, message):
    """What was expected, what was found, and how to write what was probably meant."""
    found = problems(f"train_engine: {{name: zoo, {text}}}\n")

    assert found[0].split(": ", 1)[1] == f"train_engine.{message}"


def test_every_validator_speaks_in_one_go(problems):
    """attrs itself stops at the first; each complaint stands at its own key."""
    assert problems("sampling:\n  temperature: -1\n  top_p: 2\n  max_new_tokens: 0\n") == [
        "run.yaml:5:16: sampling.temperature: must be >= 0.0, found -1.0",
        "run.yaml:6:10: sampling.top_p: must be <= 1.0, found 2.0",
        "run.yaml:7:19: sampling.max_new_tokens: must be >= 1, found 0",
    ]


def test_a_class_that_objects_to_a_combination_is_reported_at_its_section(problems):
    """From `__attrs_post_init__`: there is no single key to blame."""
    base = "model: {path: toy}\ndata: {name: rows, path: x}\n"

    assert problems("algorithm:\n  name: grpo\n  rejections:\n  - {name: band, lower: 3}\n", base=base) == [
        "run.yaml:6:5: algorithm.rejections.0: lower (3.0) is above upper (2.0)"
    ]


def test_a_missing_key_is_reported_at_its_section(problems):
    """There is no place of its own: the section's key is the nearest."""
    assert problems("", base="run:\n  seed: 1\ndata:\n  name: rows\nalgorithm: grpo\n") == [
        "run.yaml:1:1: model: this key is required: weights, tokenizer, precision",
        "run.yaml:3:1: data.path: this key is required: the file with the rows",
    ]


def test_a_type_that_no_file_can_hold_is_the_plugins_fault(problems):
    """And the user is told so."""
    found = problems("train_engine: {name: bad, where: 3}\n")

    assert "a run file cannot hold" in found[0]


def test_a_section_that_is_null_says_what_to_do(problems):
    """An empty section is null in YAML."""
    assert problems("run:\n") == [
        "run.yaml:4:5: run: expected a mapping, found nothing (null); leave the key out to take the defaults"
    ]


def test_a_dotted_key_is_told_how_files_write_it(problems):
    """It is what the command line takes."""
    assert problems("run.seed: 3\n") == ["run.yaml:4:1: run.seed: unknown section; in a file it is written `run: {seed: …}`"]
