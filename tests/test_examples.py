"""Every run file that core-rl ships is loaded and checked, and the small one is run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from core_rl.capabilities import check_capabilities
from core_rl.config.load import load_run_file
from core_rl.plugins.catalogue import Catalogue
from core_rl.run.record import RunRecord, first_and_last

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted([*ROOT.glob("examples/*.yaml"), *ROOT.glob("examples/algorithms/*.yaml")])
RECIPES = sorted(ROOT.glob("plugins/*/*/src/*/recipes/*.yaml"))
RUN_FILES = [*EXAMPLES, *RECIPES]


@pytest.mark.parametrize("path", RUN_FILES, ids=lambda path: path.stem)
def test_run_files_have_no_mistakes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Types, names, options and capabilities of everything that is shipped."""
    monkeypatch.chdir(ROOT)
    check_capabilities(load_run_file(path))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_say_what_they_are(path: Path) -> None:
    """An example opens with a comment, has the command that runs it, and its run is called after the file."""
    text = path.read_text(encoding="utf-8")

    assert text.startswith("# ")
    assert f"core-rl train {path.relative_to(ROOT)}" in text
    assert load_run_file(path).run.name == path.stem


def test_every_algorithm_has_an_example() -> None:
    """A file of its name, so that a user sees it learn, and the benchmark of all of them has it."""
    found = Catalogue.discover().components("algorithm")
    ours = {one.component.name for one in found if one.plugin is not None and one.plugin.startswith("core-rl")}
    shown = {path.stem for path in ROOT.glob("examples/algorithms/*.yaml")}

    assert sorted(ours - shown) == []


def test_the_tiny_example_learns(tmp_path: Path) -> None:
    """From random weights to over 90 % of the reward, on the prompts it trains on and, but for a few, on held-out ones."""
    command = [sys.executable, "-m", "core_rl", "train", "examples/tiny.yaml", f"run.dir={tmp_path}"]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    record = RunRecord.read(next(path for path in (tmp_path / "tiny").iterdir() if path.is_dir() and not path.is_symlink()))
    ends = first_and_last(record.series("reward/mean"))
    held_out = [value for _, value in record.series("eval/reward/mean")]

    assert ends is not None
    assert ends[1] > 0.9
    assert held_out[0] < 0.4
    assert held_out[-1] > 0.8
