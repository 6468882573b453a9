"""The console: lines in a pipe, a panel on a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from core_rl.builtin.config import ConsoleConfig
from core_rl.builtin.console import Console, spread, verdict
from core_rl.builtin.console_progress import Progress
from core_rl.roles.parts import Logger, ProgressLogger, RunInfo

STEP = {"reward/mean": 0.25, "loss": -0.5, "perf/tok_s": 512.4, "time/step": 4.0, "time/rollout": 3.0, "time/train": 1.0,
        "time/sync": 0.01}  # fmt: skip


def row(completion="7", reward=1.0, **parts):
    prompt = "<|im_start|>user\n3 + 4 =<|im_end|>\n<|im_start|>assistant\n"
    return {"split": "train", "prompt": prompt, "completion": completion, "reward": reward, "rewards": parts}


def started(**options):
    console = Console(ConsoleConfig(**options))
    console.start(RunInfo(name="demo", dir=Path("runs/demo"), config={}, total_steps=10))
    return console


def test_it_is_a_logger_that_shows_progress():
    """The loop finds the optional method."""
    console = Console(ConsoleConfig())

    assert isinstance(console, ProgressLogger)
    assert all(hasattr(console, name) for name in vars(Logger) if not name.startswith("_"))


def test_one_line_for_each_step_in_a_pipe(capsys):
    """Metrics in the order asked for, those that are missing left out; phases worth showing; an estimate."""
    console = started(metrics=("loss", "reward/mean", "nothing", "mine/x"))
    console.log(0, {"eval/reward/mean": 0.1, "time/eval": 1.5})
    console.progress("rollout", 1, 8)
    console.log(1, {**STEP, "mine/x": 12.0})
    console.finish("done")
    lines = capsys.readouterr().out.splitlines()

    assert lines[0] == "run folder: runs/demo"
    assert lines[1] == "step 0/10  eval 1.5s"
    assert lines[2] == "step 1/10  loss -0.500  reward 0.250  mine/x 12.0  4.0s (rollout 3.0 train 1.0)  0:00 left"
    assert lines[3].startswith("done: step 1 of 10 in 0:00")


def test_completions_in_a_pipe(capsys):
    """The prompt without its template's markers, control characters written out, parts where there are several."""
    console = started(samples=2)
    rows = [row("a\x1b[2Jb\n", 1.0, math=1.0, format=0.0), row("dropped"), row("c", None, math=None), row("dropped")]
    console.log_samples(5, rows)
    text = capsys.readouterr().out

    assert "step 5: completions\n  3 + 4 =\n    -> a\\x1b[2Jb⏎\n    reward 1.000 (math 1.000, format 0.000)\n" in text
    assert "reward failed (math failed)" in text
    assert "dropped" not in text
    assert "\x1b" not in text


def test_no_completions_when_none_are_wanted(capsys):
    """`samples: 0`."""
    started(samples=0).log_samples(1, [row()])

    assert "completions" not in capsys.readouterr().out


def test_a_stream_that_is_ascii():
    """A log file of a C locale gets escapes, not an exception."""
    code = (
        "from pathlib import Path; from core_rl.builtin.console import Console; from core_rl.builtin.config import ConsoleConfig\n"
        "from core_rl.roles.parts import RunInfo\n"
        "c = Console(ConsoleConfig()); c.start(RunInfo(name='λ', dir=Path('λ'), config={}, total_steps=1))\n"
        "c.log_samples(1, [{'prompt': 'λ', 'completion': 'μ\\n', 'reward': 1.0}]); c.finish('done')\n"
    )
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True, env=environment)

    assert "\\u03bb" in done.stdout
    assert "-> \\u03bc\\u23ce" in done.stdout


def on_a_terminal(code, encoding="utf-8"):
    """What a program writes to a terminal, and its screen text without the control sequences."""
    parent, child = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40", "PYTHONIOENCODING": encoding}
    process = subprocess.Popen([sys.executable, "-c", code], stdin=child, stdout=child, stderr=child, env=environment)
    os.close(child)
    raw = b""
    while True:
        try:
            block = os.read(parent, 65536)
        except OSError:  # the other side is closed
            break
        if not block:
            break
        raw += block
    os.close(parent)
    assert process.wait(timeout=30) == 0, raw.decode()
    text = raw.decode()
    return text, re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


SESSION = """
import sys
from pathlib import Path
from core_rl.builtin.config import ConsoleConfig
from core_rl.builtin.console import Console
from core_rl.roles.parts import RunInfo
console = Console(ConsoleConfig())
console.start(RunInfo(name="demo [x]", dir=Path("runs/demo"), config={}, total_steps=10))
console.log(0, {"eval/reward/mean": 0.125, "time/eval": 1.0})
for step in (1, 2, 3):
    console.progress("rollout", 3, 8)
    console.log(step, {"reward/mean": step / 10, "loss": 0.5, "time/step": 4.0, "time/rollout": 3.0, "time/train": 1.0})
print("a warning", file=sys.stderr)
row = {"split": "eval", "prompt": "3 + 4 =", "completion": "[bold]7[/bold]\\x1b[2J", "reward": 1.0, "rewards": {"math": 1.0, "format": 0.5}}
console.log_samples(3, [row])
console.finish("interrupted")
"""  # fmt: skip


def test_a_panel_on_a_terminal():
    """Step, metrics with a trend, times, table and warnings; nothing a model says acts on the terminal."""
    raw, text = on_a_terminal(SESSION)

    for expected in (
        "step 3/10", "reward 0.300 ▁▅█", "held-out reward 0.125", "loss 0.500", "last step 4.0s (rollout 3.0 train 1.0)",
        "demo [x]", "step 3: completions on held-out prompts", "[bold]7[/bold]\\x1b[2J", "format 0.500", "a warning", " left",
        "interrupted: step 3 of 10",
    ):  # fmt: skip
        assert expected in text, expected
    assert "\x1b[2J" not in raw
    assert "reward 0.100 -> 0.300" in text.splitlines()[-1]
    assert "\x1b[?25h" in raw


def test_a_terminal_without_unicode():
    """It gets the lines of a pipe."""
    raw, text = on_a_terminal(SESSION, encoding="ascii")

    assert "step 3/10  reward 0.300" in text
    assert "interrupted: step 3 of 10" in text
    assert "\x1b" not in raw


def test_rows_are_spread():
    """Neighbours are samples of one prompt."""
    assert spread(list(range(12)), 4) == [0, 3, 6, 9]
    assert spread([1, 2], 4) == [1, 2]


@pytest.mark.parametrize(
    ("parts", "text"), [({}, "1.000"), ({"a": 1.0}, "1.000"), ({"a": 1.0, "b": 0.5}, "1.000 (a 1.000, b 0.500)")]
)
def test_verdict(parts, text):
    """Parts only where they say more than the sum."""
    assert verdict(row(reward=1.0, **parts)) == text


def test_progress_by_a_clock_of_its_own(monkeypatch):
    """The estimate is the mean of the latest steps times those that are left; the start's evaluation is none of them."""
    now = [100.0]
    monkeypatch.setattr("core_rl.builtin.console_progress.time.monotonic", lambda: now[0])
    progress = Progress("r", 10, begin=4, trend_of="reward/mean")
    now[0] += 50
    progress.log(4, {"eval/reward/mean": 0.0})
    none_yet = progress.remaining_s()
    for step, seconds in ((5, 2.0), (6, 4.0)):
        now[0] += seconds
        progress.log(step, {"reward/mean": step / 10})

    assert none_yet is None
    assert progress.remaining_s() == pytest.approx(3.0 * 4)
    assert progress.elapsed_s == pytest.approx(56.0)
    assert progress.last == {"eval/reward/mean": 0.0, "reward/mean": 0.6}
    assert progress.summary("done", {}) == ("done: step 6 of 10 in 0:56; reward/mean 0.500 -> 0.600 (first and last step)")
