"""Files that are no run file at all, and what YAML allows beside plain keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from core_rl.config.load import load
from core_rl.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "run.yaml: the file is empty"),
        ("# only a comment\n", "run.yaml: the file is empty"),
        ("- a\n- b\n", "run.yaml:1:1: expected a mapping of sections, found a list"),
        ("hello\n", "run.yaml:1:1: expected a mapping of sections, found text 'hello'"),
        ("run:\n\tseed: 1\n", "run.yaml:2:1: a tab cannot indent YAML; use spaces"),
        (
            "run: {seed: 1\n",
            "run.yaml:1:6: not valid YAML: did not find expected ',' or '}'; the file ends before what begins here is closed",
        ),
        (
            "run: {name: 'x\n}\n",
            "run.yaml:1:13: not valid YAML: found unexpected end of stream; the file ends before what begins here is closed",
        ),
        ("run: {seed: 1}\n  model: x\n", "run.yaml:2:3: "),
        (
            "run: a: b\n",
            "run.yaml:1:7: a `:` where no key can stand: look at the indentation, or put text with `: ` in it in quotes",
        ),
        ("run: @x\n", "run.yaml:1:6: `@` cannot begin a value; put the text in quotes"),
        ("run: {dir: ${X}}\n", "run.yaml:1:13: put ${…} in quotes where it stands inside { } or [ ]"),
        ("run: *x\n", "run.yaml:1:6: *x names no anchor above it"),
        ("run: {}\n---\nrun: {}\n", "run.yaml:2:1: a second YAML document begins here; a run file is one"),
        ("run: {name: a\x01b}\n", "run.yaml:1:14: the character '\\x01' is not allowed in YAML"),
    ],
)
def test_broken_yaml_is_one_clear_line_at_its_place(problems, text, line):
    """Line and column count from 1."""
    found = problems(text, base="")

    assert len(found) == 1
    assert found[0].startswith(line)


def test_a_file_that_is_none_is_one_clear_line(tmp_path, catalogue):
    """No such file, a directory, and bytes that are not UTF-8."""
    Path("latin.yaml").write_bytes(b"run:\n  name: caf\xe9\n")

    lines = []
    for name in ("missing.yaml", str(tmp_path), "latin.yaml"):
        with pytest.raises(ConfigError) as caught:
            load(name, catalogue=catalogue)
        lines.append(str(caught.value))

    assert lines == [
        "missing.yaml: no such file",
        f"{tmp_path}: this is a directory; give the YAML file in it",
        "latin.yaml:2:12: byte 0xe9 is not UTF-8; save the file as UTF-8",
    ]


def test_a_byte_order_mark_is_no_mistake(run_file):
    """Some editors write one."""
    assert (
        run_file(
            "run: {seed: 5}\n", base="\ufeff" + "model: {path: toy}\ndata: {name: rows, path: x}\nalgorithm: grpo\n"
        ).run.seed
        == 5
    )


def test_a_key_given_twice_names_both_places(problems):
    """Most YAML readers let the second win in silence."""
    assert problems("run:\n  seed: 1\n  steps: 2\n  seed: 3\n") == [
        "run.yaml:7:3: run.seed: the key `seed` is given twice; the first is at run.yaml:5:3"
    ]


def test_anchors_aliases_and_merge_keys(run_file):
    """A mapping's own keys win over merged ones, and the first of several merged ones wins."""
    file = run_file(
        "sampling: &warm {temperature: 0.7, top_p: 0.9}\n"
        "eval:\n  sampling:\n    <<: [{top_k: 5}, *warm, {top_k: 7}]\n    top_p: 0.5\n"
    )

    assert (file.eval.sampling.temperature, file.eval.sampling.top_p, file.eval.sampling.top_k) == (0.7, 0.5, 5)
    assert file.sampling.top_k is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("run: {<<: 3}\n", "run.yaml:4:7: run: `<<` takes an alias of a mapping, or a list of them"),
        ("run: &a {name: *a}\n", "run.yaml:4:6: run.name: this anchor holds an alias of itself"),
        ("run: {? [a] : b}\n", "run.yaml:4:9: run: a key is one word, found a list or mapping"),
        ("run: {seed: !mine 3}\n", "run.yaml:4:13: run.seed: the tag !mine has no meaning in a run file"),
        ("run: {seed: !!int x}\n", "run.yaml:4:13: run.seed: 'x' is not what its tag !!int says"),
        ("run: !!set {a}\n", "run.yaml:4:6: run: the tag !!set has no meaning in a run file"),
    ],
)
def test_yaml_that_has_no_meaning_here(problems, text, line):
    """A place, a path and a reason, and no second complaint about the same place."""
    assert problems(text) == [line]


def test_a_mistake_inside_an_anchor_is_told_once(problems):
    """Two aliases do not double it."""
    assert len(problems("sampling: &s {temperature: hot}\neval: {sampling: *s}\n")) == 1
