"""The page about the run file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import attrs

from core_rl.config.load import load_run_file
from core_rl.config.run_file import RunFile

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")


def test_the_option_tables_are_those_of_the_classes():
    """Written by a script; whoever changes a class runs it."""
    script = ROOT / "scripts" / "make_config_docs.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_the_page_of_algorithms_is_that_of_the_components():
    """Written by a script from what the plugins register."""
    script = ROOT / "scripts" / "make_algorithm_docs.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_the_pages_of_the_kinds_are_those_of_the_code():
    """Written by a script from hooks, contracts, checks and what the plugins register."""
    script = ROOT / "scripts" / "make_plugin_docs.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)

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
