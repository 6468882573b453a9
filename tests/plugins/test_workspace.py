"""The workspace's own plugins keep the rules that `core-rl plugins check` knows."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from core_rl.plugins.catalogue import Catalogue
from core_rl.plugins.check import findings
from core_rl.plugins.selectors import CORE

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = [
    CORE,
    *(
        tomllib.loads(path.read_text(encoding="utf-8"))["project"]["name"]
        for path in sorted(ROOT.glob("plugins/*/*/pyproject.toml"))
    ),
]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_first_party_plugin_has_nothing_wrong(distribution: str) -> None:
    """It loads, its targets follow their contracts, every option has help, every capability is known."""
    catalogue = Catalogue.discover(allow=[distribution])
    plugins = [plugin for plugin in catalogue.plugins if plugin.distribution == distribution]

    assert not [row for row in catalogue.broken if row.plugin == distribution]
    assert len(plugins) == 1
    assert findings(plugins[0]) == []
