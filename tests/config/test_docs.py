"""The page about the run file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import attrs
import yaml

from core_rl.config.run_file import RunFile

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")


def test_the_option_tables_are_those_of_the_classes():
    """Written by a script; whoever changes a class runs it."""
    script = ROOT / "scripts" / "make_config_docs.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_every_key_of_a_run_file_is_on_the_page():
    """Sections and parts alike."""
    keys = [field.name for field in attrs.fields(RunFile)]

    assert [key for key in keys if f"### {key}\n" not in PAGE and f"| `{key}` |" not in PAGE] == []


def test_the_example_has_no_unknown_section():
    """It is the first that a reader copies."""
    example = yaml.safe_load(PAGE.split("```yaml\n")[1].split("```")[0])

    assert example.keys() <= {field.name for field in attrs.fields(RunFile)}


def test_every_field_of_the_core_has_help():
    """The table would be empty beside it."""
    from core_rl.config.options import options_of

    assert [one.key for one in options_of(RunFile) if not one.help] == []
