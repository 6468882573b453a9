"""The generated table of first-party names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_known.py"


def test_the_table_is_fresh(monkeypatch) -> None:
    """known.py is what the workspace's plugins register now."""
    monkeypatch.delenv("CORE_RL_PLUGINS_ALLOW", raising=False)
    monkeypatch.delenv("CORE_RL_PLUGINS_BLOCK", raising=False)
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
