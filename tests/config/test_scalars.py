"""Scalars by the rules of YAML 1.2."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core_rl.config.reader import read_file_text
from core_rl.config.scalars import parse_scalar
from core_rl.config.show import dump
from core_rl.config.tree import to_python


def read(text):
    problems = []
    node = read_file_text(text, "x.yaml", problems)
    assert not problems
    return to_python(node)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("1E5", 1e5),
        ("-1.", -1.0),
        (".5", 0.5),
        ("+3", 3),
        ("007", 7),
        ("0o17", 15),
        ("0x1f", 31),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
        ("~", None),
        ("null", None),
        ("", None),
        ("true", True),
        ("FALSE", False),
    ],
)
def test_a_number_a_truth_and_a_null_are_what_they_look_like(text, value):
    """The core schema of YAML 1.2; YAML 1.1 takes 1e-4 for text."""
    read = parse_scalar(text)

    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "no",
        "on",
        "Off",
        "y",
        "12:30",
        "1:02:03",
        "2024-01-01",
        "2024-01-01 10:00:00",
        "1_000",
        "0b1",
        "1e",
        "e5",
        ".",
        "-",
    ],
)
def test_what_yaml_1_1_converts_is_text(text):
    """No Norway problem, no sexagesimal numbers, no dates."""
    assert parse_scalar(text) == text


def test_nan_is_a_number():
    """`.nan` is a float."""
    value = parse_scalar(".NaN")

    assert isinstance(value, float)
    assert math.isnan(value)


def test_a_very_long_number_stays_text():
    """Python refuses to convert it, and we do not crash."""
    assert parse_scalar("9" * 5000) == "9" * 5000


def test_quotes_make_text():
    """As in every YAML."""
    assert read("""{a: "1", b: 'true', c: !!str 3, d: !!float 3, e: "null"}""") == {
        "a": "1",
        "b": "true",
        "c": "3",
        "d": 3,
        "e": "null",
    }


@given(st.one_of(st.text(), st.integers(), st.floats(allow_nan=False), st.booleans(), st.none()))
def test_every_scalar_survives_writing_and_reading(value):
    """What `config show` writes is read back as the same value of the same type."""
    again = read(dump({"a": value}))["a"]

    assert (again, type(again)) == (value, type(value))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=8,
    )
)
@example({"${": "${", "$${HOME}": ["${HOME}"]})
def test_every_structure_survives_writing_and_reading(value):
    """Lists and mappings too, whatever their keys."""
    assert read(dump({"a": value})) == {"a": value}
