"""Whatever is in a file: a run file or a `ConfigError`, and nothing else."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core_rl.config.load import load
from core_rl.config.run_file import RunFile
from core_rl.config.show import dump
from core_rl.config.walk import Owner, Walker
from core_rl.errors import ConfigError

_OTHER_KEYS = ("name", "weight", "loss", "seed", "extends", "kl", "block", "allow", "path", "corner", "sizes", "pair", "0")
_KEYS = st.sampled_from([*(field.name for field in attrs.fields(RunFile)), *_OTHER_KEYS])
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["grpo", "zoo", "rows", "${", "x", "base.yaml", "a/b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)
_RELAXED = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def outcome(catalogue, *overrides):
    """The run file, or its mistakes; every one has a place and a message."""
    try:
        return load("run.yaml", overrides, catalogue=catalogue).run_file
    except ConfigError as error:
        return error if all(one.where and one.message for one in error.problems) and error.problems else None


@_RELAXED
@given(value=st.dictionaries(_KEYS, _VALUES, max_size=6))
def test_any_structure(catalogue, value):
    """Keys at all the wrong places."""
    Path("run.yaml").write_text(dump(value), encoding="utf-8")

    assert isinstance(outcome(catalogue), RunFile | ConfigError)


@_RELAXED
@given(text=st.text(alphabet="ab:-[]{}&*!|>'\"%@`#,? \n\t~$<0.\x00\x85\ud7ff", max_size=40))
def test_any_text(catalogue, text):
    """Broken YAML too."""
    Path("run.yaml").write_text(text, encoding="utf-8")

    assert isinstance(outcome(catalogue), ConfigError)


@_RELAXED
@given(override=st.lists(_KEYS, min_size=1, max_size=4), value=_VALUES)
def test_any_override(catalogue, override, value):
    """On a good file."""
    Path("run.yaml").write_text(
        "model: {path: toy}\ndata: {name: rows, path: x}\nalgorithm: grpo\nrewards: [exact]\n", encoding="utf-8"
    )
    text = dump([value]).removeprefix("- ")

    assert isinstance(outcome(catalogue, f"{'.'.join(override)}={text}"), RunFile | ConfigError)


def test_very_deep_nesting_is_a_mistake_too(catalogue):
    """Not a crash."""
    Path("run.yaml").write_text("run: " + "[" * 5000 + "]" * 5000, encoding="utf-8")

    assert "nested" in str(outcome(catalogue))


def test_a_default_made_from_other_fields_is_left_to_the_class(catalogue):
    """attrs makes it when the instance is built."""

    @attrs.frozen(kw_only=True)
    class Window:
        size: int = 4
        step: int = attrs.field()

        @step.default
        def _half(self):
            return self.size // 2

    from core_rl.config.lookup import Lookup
    from core_rl.config.tree import MapNode, Origin, Scalar

    origin = Origin("here", "here")
    node = MapNode(items={"size": Scalar(value=10, text="10", origin=origin)}, origin=origin)
    problems = []
    window = Walker(Lookup(catalogue), problems).section(node, Window, "", Owner(words="key"))

    assert (window.size, window.step, problems) == (10, 5, [])


@pytest.mark.parametrize("name", ["run", "rewards"])
def test_null_sections_do_not_crash_the_merge(catalogue, name):
    """An empty section under an override is as if it were not there."""
    Path("run.yaml").write_text(
        f"{name}:\nmodel: {{path: toy}}\ndata: {{name: rows, path: x}}\nalgorithm: grpo\n", encoding="utf-8"
    )

    assert isinstance(outcome(catalogue, "run.seed=3", "rewards=[exact]"), RunFile | ConfigError)
