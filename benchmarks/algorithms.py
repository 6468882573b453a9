"""Every named algorithm on its example in examples/algorithms/, with three seeds: a table and a picture of what each has learnt.

Online algorithms share one task (the larger of two digits) and one model of random weights, so that their curves can be compared;
preference, reward-model and fine-tuning algorithms have their own. See README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import _machine
from _cases import HERE, ROOT
from _curves import draw

from core_rl.run.record import RunRecord, first_and_last

RESULTS = HERE / "results"
EXAMPLES = ROOT / "examples" / "algorithms"
MEASURES = {
    "reward/mean": "reward",
    "eval/rewards/accuracy": "held-out pair accuracy",
    "eval/loss": "held-out loss",
}
"""What says that an algorithm learns: the first of these that its run has."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", action="append", help="an example by its name, may be given several times; the others keep their results"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs at once, of one thread each")
    parser.add_argument("--dry-run", action="store_true", help="print, and leave the files in results/ as they are")
    args = parser.parse_args()
    files = [file for file in sorted(EXAMPLES.glob("*.yaml")) if not args.only or file.stem in args.only]
    with tempfile.TemporaryDirectory(prefix="core-rl-bench-") as scratch, ThreadPoolExecutor(args.jobs) as pool:
        teacher = make_teacher(Path(scratch)) if any("teacher" in file.read_text(encoding="utf-8") for file in files) else None
        runs: list[dict[str, Any]] = []
        for seed in args.seeds:  # seed by seed, so that what is written while it runs speaks of every algorithm
            runs += pool.map(lambda file, seed=seed: train(file, seed, Path(scratch), teacher), files)
            rows = [summary(file.stem, [run for run in runs if run["name"] == file.stem]) for file in files]
            report(rows, args.seeds[: args.seeds.index(seed) + 1], partly=bool(args.only), dry_run=args.dry_run)


def report(rows: Sequence[dict[str, Any]], seeds: Sequence[int], *, partly: bool, dry_run: bool) -> None:
    """Table and picture of the seeds so far."""
    found = {"machine": _machine.describe(1), "core_rl": _machine.versions(), "seeds": list(seeds), "rows": list(rows)}
    print(table(found), flush=True)
    if dry_run:
        return
    RESULTS.mkdir(exist_ok=True)
    if partly:
        found["rows"] = rows = with_the_others(rows)
    (RESULTS / "algorithms.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (RESULTS / "algorithms.md").write_text(table(found), encoding="utf-8")
    draw(rows, RESULTS / "algorithms.png")


def with_the_others(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the last results, with these in the place of their own."""
    path = RESULTS / "algorithms.json"
    before = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.is_file() else []
    by_name = {row["name"]: row for row in (*before, *rows)}
    return [by_name[name] for name in sorted(by_name)]


def make_teacher(scratch: Path) -> Path:
    """The model that the distillations learn from, as their files say it is made."""
    settings = ["run.steps=400", f"run.dir={scratch / 'teacher'}", "loggers=[jsonl]"]
    command = [sys.executable, "-m", "core_rl", "train", "examples/algorithms/grpo.yaml", *settings]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next((scratch / "teacher" / "grpo" / "latest").glob("model"))


def train(file: Path, seed: int, scratch: Path, teacher: Path | None) -> dict[str, Any]:
    """One run as a user starts it; its curve."""
    folder = scratch / f"{file.stem}-{seed}"
    settings = [f"run.seed={seed}", f"run.dir={folder}", "loggers=[jsonl]"]
    settings += ["checkpoint.at_end=false", "checkpoint.export_hf=false"]
    if "teacher:" in file.read_text(encoding="utf-8"):
        settings.append(f"algorithm.teacher.model.path={teacher}")
    command = [sys.executable, "-m", "core_rl", "train", str(file.relative_to(ROOT)), *settings]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    start = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    seconds = time.perf_counter() - start
    if done.returncode:
        print(f"{file.stem} seed {seed} failed: {done.stderr.strip().splitlines()[-1:]}", flush=True)
        return {"name": file.stem, "seed": seed, "measure": None, "curve": [], "seconds": seconds}
    record = RunRecord.read(next(path.parent for path in folder.glob("*/*/metrics.jsonl") if not path.parent.is_symlink()))
    measure = next((name for name in MEASURES if record.series(name)), None)
    curve = record.series(measure) if measure else []
    ends = ends_of(measure, curve)
    print(f"{file.stem} seed {seed}: {measure} {ends[0]:.3f} -> {ends[1]:.3f}, {seconds:.0f} s", flush=True)
    return {"name": file.stem, "seed": seed, "measure": measure, "curve": curve, "seconds": seconds}


def ends_of(measure: str | None, curve: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Start and end: of a reward the means of the first and last twentieth, of a held-out measure its first and last value."""
    if not curve:
        return float("nan"), float("nan")
    if measure == "reward/mean":
        found = first_and_last(list(curve), share=0.05)
        assert found is not None
        return found
    return curve[0][1], curve[-1][1]


def summary(name: str, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    pairs = [ends_of(run["measure"], run["curve"]) for run in runs]
    starts, lasts = zip(*pairs, strict=True)
    return {
        "name": name,
        "measure": next((run["measure"] for run in runs if run["measure"]), None),
        "start": statistics.fmean(starts),
        "end": statistics.fmean(lasts),
        "end_min": min(lasts),
        "end_max": max(lasts),
        "seconds": statistics.median(run["seconds"] for run in runs),
        "curves": [thinned(run["curve"]) for run in runs],
    }


def thinned(curve: Sequence[tuple[float, float]], points: int = 40) -> list[tuple[float, float]]:
    """At most so many points, each the mean of its neighbours: what a small picture can show."""
    size = max(1, len(curve) // points)
    parts: Iterable[Sequence[tuple[float, float]]] = (curve[at : at + size] for at in range(0, len(curve), size))
    return [(part[-1][0], round(statistics.fmean(value for _, value in part), 4)) for part in parts]


def table(report: dict[str, Any]) -> str:
    """The same as Markdown."""
    lines = [
        "# What every algorithm learns",
        "",
        f"core-rl {report['core_rl']['core-rl']}, {len(report['seeds'])} seeds each. {report['machine']['text']}.",
        "Mean over the seeds, and the worst and best of them; seconds of a whole run on one core.",
        "",
        "| algorithm | measure | start | end | worst to best seed | seconds |",
        "|---|---|---|---|---|---|",
        *(
            f"| {row['name']} | {MEASURES.get(row['measure'], 'none')} | {row['start']:.3f} | {row['end']:.3f} | "
            f"{row['end_min']:.3f} to {row['end_max']:.3f} | {row['seconds']:.0f} |"
            for row in report["rows"]
        ),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
