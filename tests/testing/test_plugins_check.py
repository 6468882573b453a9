"""`core-rl plugins check` runs the kit: what it prints, its exit codes, and that no mistake of a plugin is a traceback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

PLUGIN = """
from core_rl import Component, hookimpl
{more}
@hookimpl
def core_rl_rewards():
    return [Component(name="toy", target="toy_target:Toy", config="toy_options:ToyOptions", summary="a toy")]
"""
OPTIONS = """
import attrs
{more}
@attrs.frozen(kw_only=True)
class ToyOptions:
    right: float = attrs.field({default}metadata={{"help": "for a right answer"}})
"""
TARGET = """
class Toy:
    def __init__(self, options):
        self.right = options.right
    def score(self, sample):
        {body}
"""
GOOD = "return self.right * (sample.completion_text.strip() == str(sample.prompt.answer))"


@pytest.fixture
def check(tmp_path):
    """A function that installs the plugin `toy` of these parts and checks it in a process of its own."""

    def run(*arguments, body=GOOD, default="default=1.0, ", plugin="", options=""):
        info = tmp_path / "core_rl_toy-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: core-rl-toy\nVersion: 1.0\nRequires-Dist: core-rl>=0.1\n")
        (info / "entry_points.txt").write_text("[core_rl.plugins]\ntoy = toy_plugin\n")
        (tmp_path / "toy_plugin.py").write_text(PLUGIN.format(more=plugin))
        (tmp_path / "toy_options.py").write_text(OPTIONS.format(more=options, default=default))
        (tmp_path / "toy_target.py").write_text(TARGET.format(body=body))
        command = [sys.executable, "-m", "core_rl", "plugins", "check", "toy", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)

    return run


def test_a_sound_plugin(check):
    """Exit 0, a line for each check with what holds, and a summary."""
    done = check()

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[1] == "reward toy"
    assert all(line.startswith("  ok      ") and line.endswith(".") for line in lines[2:-2])
    assert lines[-1] == f"core-rl-toy/toy: nothing wrong with 1 components; checks: {len(lines) - 4} ok"


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ({"body": "return float('nan')"}, "FAILED  scores: the completion '5' got nan, expected a finite number"),
        ({"body": "raise SystemExit(7)"}, "FAILED  scores: it raised SystemExit: 7"),
        ({"body": "return (1 / 0)"}, "FAILED  scores: it raised ZeroDivisionError: division by zero"),
        (
            {"options": "import os\nos.environ['TOY'] = '1'", "body": "import os; os.chdir('/'); return 1.0"},
            "FAILED  no_global_state",
        ),
        (
            {"plugin": "import os\nos.environ['TOY'] = '1'"},
            "FAILED  listing_changes_nothing: listing core-rl-toy changes the env",
        ),
    ],
)
def test_what_is_wrong_is_a_line(check, parts, line):
    """Exit 1 and the check that fails, never a traceback."""
    done = check(**parts)

    assert done.returncode == 1
    assert line in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_check_that_does_not_end(check):
    """It is named with the line where it hangs, whatever the component catches, and the rest of the component is left out."""
    body = """while True:
            try:
                import time; time.sleep(1000)
            except Exception:
                pass"""
    done = check("--timeout", "12", body=body)

    assert done.returncode == 1
    last, left_out, _, summary = done.stdout.splitlines()[-4:]
    assert re.match(r"  FAILED  no_global_state: it did not end within 12 s \(.*toy_target.py:\d+\)", last)
    assert left_out == "  -       not run: the rest of its checks, as this one did not end"
    assert summary.endswith("1 mistakes in 1 components; checks: 9 ok, 1 failed")
    assert "Traceback" not in done.stdout + done.stderr


def test_a_thread_that_hangs(check):
    """Its check ends all the same, and so does the process, which would wait for the thread."""
    body = f"""import threading, time
        if threading.current_thread() is not threading.main_thread():
            time.sleep(1000)
        {GOOD}"""
    done = check("--timeout", "12", body=body)

    assert done.returncode == 1
    assert "FAILED  several_threads: it did not end within 12 s" in done.stdout, done.stdout


def test_a_time_that_is_none(check):
    """One line, and exit 2."""
    done = check("--timeout", "0")

    assert (done.returncode, done.stdout) == (2, "")
    assert "--timeout: expected seconds above 0, found 0" in done.stderr


def test_options_without_defaults(check):
    """It is said which, and how to give them; given, the checks run."""
    silent = check("--json", default="")
    report = json.loads(silent.stdout)

    assert silent.returncode == 0
    assert [(row["status"], row["reason"]) for row in report["checks"]] == [
        ("not run", "right has no default: give --options '{toy: {right: …}}'")
    ]


def test_json(check):
    """The report is all that is on stdout, whatever the component prints."""
    done = check("--json", "--options", "{reward/toy: {right: 2}}", body=f"print('noise'); {GOOD}", default="")
    report = json.loads(done.stdout)

    assert done.returncode == 0
    assert {row["status"] for row in report["checks"]} == {"ok"}
    assert report["findings"] == []
    assert "noise" in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("{tov: {right: 1}}", "there is no component 'tov' in the plugin; did you mean `toy`?"),
        ("{toy: 3}", "toy: expected a mapping of its options, found 3"),
        ("[", "expected YAML"),
        ("3", "expected a mapping of components to options"),
    ],
)
def test_options_that_are_no_options(check, options, words):
    """Exit 2 and one line."""
    done = check("--options", options)

    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
