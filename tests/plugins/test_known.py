"""The generated table of first-party names."""

from __future__ import annotations

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_known.py"


def test_the_table_is_fresh(monkeypatch) -> None:
    """known.py is what the workspace's plugins register now: else run scripts/make_known.py."""
    monkeypatch.delenv("CORE_RL_PLUGINS_ALLOW", raising=False)
    monkeypatch.delenv("CORE_RL_PLUGINS_BLOCK", raising=False)
    spec = importlib.util.spec_from_file_location("make_known", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)

    assert script.TARGET.read_text(encoding="utf-8") == script.render()
