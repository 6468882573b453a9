"""Every part that can be selected has its maths on file: a formula for each component, a paper for each algorithm."""

from __future__ import annotations

import attrs
import pytest

from core_rl.config.explain import formula_of
from core_rl.config.selection import select
from core_rl.plugins.catalogue import Catalogue
from core_rl.plugins.references import load_reference

KINDS = ("loss", "advantage", "normaliser", "aggregation", "kl_estimator", "rejection", "resampler")
WITHOUT_PAPER = {"grpo_loo", "reinforce"}
"""Older than arXiv, and one system's own defaults."""


@pytest.fixture(scope="module")
def everything():
    return [one for one in Catalogue.discover().components() if (one.plugin or "").startswith("core-rl")]


def options(component):
    """With the defaults; None where there are none, or where one is required."""
    if component.config is None:
        return None
    try:
        return load_reference(component.config)()
    except TypeError:
        return None


@pytest.mark.parametrize("kind", KINDS)
def test_every_component_has_a_formula(everything, kind):
    """From its options class, or registered with it; on one line each, in ascii but for the middle dot."""
    silent, wide = [], []
    for one in everything:
        if one.kind != kind:
            continue
        component = one.component
        chosen = attrs.evolve(select(kind, component.name), options=options(component), component=component)
        writes_own = component.config is not None and hasattr(load_reference(component.config), "formula")
        formula = formula_of(chosen)
        if not formula and not (writes_own and chosen.options is None):
            silent.append(f"{one.plugin}: {component.name}")
        if not formula.replace("·", "").isascii():
            wide.append(f"{one.plugin}: {component.name}: {formula}")

    assert (silent, wide) == ([], [])


def test_every_algorithm_has_a_paper(everything):
    """An arXiv number, but for those that are on the list."""
    algorithms = {one.component.name: one.component.paper for one in everything if one.kind == "algorithm"}
    without = {name for name, paper in algorithms.items() if not paper}

    assert without - WITHOUT_PAPER == set()
    assert WITHOUT_PAPER & algorithms.keys() <= without


def test_every_selectable_part_has_a_summary(everything):
    """The words beside the symbols."""
    assert [one.component.name for one in everything if one.kind in (*KINDS, "algorithm") and not one.component.summary] == []
