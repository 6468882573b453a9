"""Every installed train engine: the conformance suite with its measured differences, and the time of one train step.

The suites are those of the engines' own tests (`plugins/engines/*/tests/test_*_conformance.py`), in this process and its workers. See
README.md.
"""

from __future__ import annotations

import argparse
import collections
import importlib.metadata
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import _machine
from _cases import HERE
from _engine_suites import installed_suites, on_gpu
from _engine_times import BUDGET, GROUP, LENGTH, SEQUENCES, step_times

from core_rl.testing.train_engine.report import record, tables
from core_rl.testing.train_engines import Suite

if TYPE_CHECKING:
    from core_rl.testing.train_engines import TrainEngineConformance

RESULTS = HERE / "results"
BACKENDS = ("torch", "transformers", "deepspeed", "megatron-core")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", action="append", help="an engine or a title, may be given several times; the others keep their results"
    )
    parser.add_argument("--rounds", type=int, default=3, help="times that each engine is started and timed; 0: no times")
    parser.add_argument("--no-checks", action="store_true", help="times alone")
    parser.add_argument(
        "--gpu", choices=["float32", "bfloat16"], help="on one GPU in this precision, beside the results of the CPU"
    )
    parser.add_argument("--dry-run", action="store_true", help="print, and leave the files in results/ as they are")
    args = parser.parse_args()
    suites = installed_suites(args.only)
    if args.gpu:
        suites = on_gpu(suites, args.gpu)
    found: dict[str, Any] = {
        "machine": _machine.describe(os.cpu_count() or 1),
        "versions": _versions(),
        "suites": [],
        "times": [],
    }
    for title, suite in {} if args.no_checks else suites.items():
        found["suites"].append(judge(title, suite))
        if not args.dry_run:
            write(found)  # after each, so that what was measured outlives an interruption
    found["times"] = step_times(suites, rounds=args.rounds) if args.rounds else []
    if not args.dry_run:
        found = write(found)
    print(markdown(found))


def judge(title: str, suite: type[TrainEngineConformance]) -> dict[str, Any]:
    """All checks of one suite; its workers end with it."""
    bench = suite.bench()
    try:
        made = record(Suite(suite.subject(), bench))
    finally:
        bench.close()
    counts = collections.Counter(case["status"] for case in made["cases"])
    print(f"{title}: {', '.join(f'{count} {status}' for status, count in sorted(counts.items()))}", flush=True)
    return made


def write(found: dict[str, Any]) -> dict[str, Any]:
    """With the last results of what was not run now."""
    path = RESULTS / "engines.json"
    whole = dict(found)
    if path.is_file():
        before = json.loads(path.read_text(encoding="utf-8"))
        for part in ("suites", "times"):
            new = {row["title"] for row in found[part]}
            rows = [row for row in before[part] if row["title"] not in new] + found[part]
            whole[part] = sorted(rows, key=lambda row: (row["title"] != "local", row["title"]))
    RESULTS.mkdir(exist_ok=True)
    path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(markdown(whole), encoding="utf-8")
    return whole


def markdown(found: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    lines = [
        "# Train engines",
        "",
        f"{versions}. {found['machine']['text']}; workers on the CPU with gloo, but for those with device=cuda.",
        "",
        "## Differences to `local`",
        "",
        "Largest difference to the local engine in float32 over all models and numbers of ranks, or to other micro-batches. Allowed:",
        "log-probabilities and entropy 1e-4, loss and metrics 1e-5 relative, gradient norm 1e-4 relative, weights after a step 1e-5;",
        "bfloat16 has wider ones. Then every check, engines by their number, with its largest difference in percent of what it allows.",
        "",
        tables(found["suites"]),
        "## One train step",
        "",
        f"Llama of 6 million parameters, {SEQUENCES} sequences of {LENGTH} tokens in groups of {GROUP}, micro-batches of at most {BUDGET}",
        "tokens, float32, all cores of the machine over the ranks. Median of steps in several processes, engines in turn.",
        "",
        times(found["times"]),
    ]
    return "\n".join(lines)


def times(rows: Sequence[dict[str, Any]]) -> str:
    base = next((row["median"] for row in rows if (row["title"], row["world_size"]) == ("local", 1)), None)
    lines = ["| engine | ranks | median, s | fastest, s | to local |", "|---|---|---|---|---|"]
    for row in rows:
        ratio = f"{row['median'] / base:.2f}" if base else "-"
        lines.append(f"| {row['title']} | {row['world_size']} | {row['median']:.3f} | {row['min']:.3f} | {ratio} |")
    return "\n".join(lines) + "\n"


def _versions() -> dict[str, str]:
    versions = {"core-rl": importlib.metadata.version("core-rl")}
    for name in BACKENDS:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


if __name__ == "__main__":
    main()
