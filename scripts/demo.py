"""`make demo`: train SmolLM2-135M-Instruct on small sums with GRPO, then show what changed: figures, completions, a plot."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from core_rl.cli.tables import print_table
from core_rl.run.plot import plot_run
from core_rl.run.record import Row, RunRecord, first_and_last

ROOT = Path(__file__).resolve().parent.parent
SHOWN = 8


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="changes of examples/demo.yaml, such as run.seed=2")
    args = parser.parse_args()
    start = time.monotonic()
    command = [sys.executable, "-m", "core_rl", "train", "examples/demo.yaml", *args.overrides]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"HF_HUB_OFFLINE": "1"}, check=False)
    if done.returncode:
        return done.returncode
    folder = newest_run(args.overrides)
    show(RunRecord.read(folder))
    print(f"\nPlot: {plot_run(folder, folder / 'plot.png')}")
    print(f"The whole took {time.monotonic() - start:.0f} s.")
    return 0


def newest_run(overrides: Sequence[str]) -> Path:
    """The folder of the run that has just ended."""
    changed = dict(text.partition("=")[::2] for text in overrides)
    runs = (ROOT / changed.get("run.dir", "runs") / changed.get("run.name", "demo")).iterdir()
    return max(path for path in runs if path.is_dir() and not path.is_symlink())


def show(record: RunRecord) -> None:
    """Figures before and after, then answers to the same held-out questions."""
    rewards, held_out = record.series("reward/mean"), record.series("eval/reward/mean")
    ends = first_and_last(rewards)
    assert ends is not None
    rows = [("mean reward, first and last fifth of the steps", f"{ends[0]:.3f}", f"{ends[1]:.3f}")]
    rows.append(
        (f"held-out accuracy, steps {held_out[0][0]} and {held_out[-1][0]}", f"{held_out[0][1]:.3f}", f"{held_out[-1][1]:.3f}")
    )
    print_table("\nWhat changed", ("", "BEFORE", "AFTER"), rows)
    samples = record.samples("eval")
    before, after = samples[min(samples)], {row["id"]: row for row in samples[max(samples)]}
    # first those whose reward changed: they show what was learnt, and what was unlearnt
    chosen = sorted(before, key=lambda row: row["reward"] == after[row["id"]]["reward"])[:SHOWN]
    columns = ("QUESTION", "ANSWER", "BEFORE", "AFTER")
    print_table("\nHeld-out questions", columns, [_compared(row, after[row["id"]]) for row in chosen])


def _compared(before: Row, after: Row) -> tuple[str, str, str, str]:
    question = str(before["prompt"]).rpartition("user\n")[2].partition("<|im_end|>")[0].rpartition(": ")[2]
    return question.strip(), str(before["answer"]), _marked(before), _marked(after)


def _marked(row: Row) -> str:
    text = " ".join(str(row["completion"]).split())
    return f"{'right' if row['reward'] else 'wrong'}: {text[:60]}"


if __name__ == "__main__":
    sys.exit(main())
