"""Starts the probe, and goes on after what crashes or hangs in it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

TIMEOUT_S = 120.0
"""For all imports together; the slowest backend that is known takes about 20 s."""


def try_imports(jobs: Sequence[Mapping[str, Any]], *, timeout_s: float = TIMEOUT_S) -> dict[str, dict[str, Any]]:
    """What came of each job, by the name of its plugin. A job that ended the process has `crash`, in words."""
    results: dict[str, dict[str, Any]] = {}
    left = list(jobs)
    while left:
        rows, ending = _run(left, timeout_s)
        results.update({row["done"]: row for row in rows if "done" in row})
        begun = [row["begin"] for row in rows if "begin" in row]
        if ending is not None:
            culprit = begun[-1] if begun else left[0]["plugin"]
            results[culprit] = {"crash": ending}
        left = [job for job in left if job["plugin"] not in results]
    return results


def _run(jobs: Sequence[Mapping[str, Any]], timeout_s: float) -> tuple[list[dict[str, Any]], str | None]:
    """The rows that the probe wrote, and how it ended if not well."""
    command = [sys.executable, "-m", "core_rl.doctor.probe"]
    ending = None
    try:
        done = subprocess.run(  # noqa: S603 - our own module
            command, input=json.dumps(list(jobs)), capture_output=True, text=True, timeout=timeout_s, check=False
        )
        output = done.stdout
        if done.returncode:
            reason = f"killed by signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
            last = (done.stderr.strip().splitlines() or [""])[-1]
            ending = f"importing it ended Python ({reason}) {last}".strip()
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode()  # bytes also where text was asked for
        ending = f"importing it took over {timeout_s:g} s"
    return [json.loads(line) for line in output.splitlines() if line.startswith("{") and line.endswith("}")], ending
