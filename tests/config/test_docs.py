"""The page about the run file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from core_rl.config.load import load_run_file
from core_rl.config.run_file import RunFile

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("script", ["make_config_docs", "make_algorithm_docs", "make_plugin_docs"])
def test_the_generated_pages_are_those_of_the_code(script):
    """Option tables, algorithms and kinds of components; whoever changes one runs `make generated`."""
    path = ROOT / "scripts" / f"{script}.py"
    done = subprocess.run([sys.executable, path, "--check"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_every_key_of_a_run_file_is_on_the_page():
    """Sections and parts alike."""
    keys = [field.name for field in attrs.fields(RunFile)]

    assert [key for key in keys if f"### {key}\n" not in PAGE and f"| `{key}` |" not in PAGE] == []


def test_the_example_loads(tmp_path):
    """It is the first that a reader copies."""
    path = tmp_path / "run.yaml"
    path.write_text(PAGE.split("```yaml\n")[1].split("```")[0], encoding="utf-8")
    file = load_run_file(path)

    assert (file.algorithm.options.loss.options.clip_high, file.rewards[1].weight) == (0.28, 0.1)


def test_every_field_of_the_core_has_help():
    """The table would be empty beside it."""
    from core_rl.config.options import options_of

    assert [one.key for one in options_of(RunFile) if not one.help] == []
