"""The driver's side of the process that does algebra: one request at a time, a new process after one that was ended."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import attrs

_KEPT_VERDICTS = 10_000


@attrs.frozen
class Verdict:
    """Whether the answer is right, whether there was one, and what went wrong if it could not be compared."""

    correct: bool
    found: bool
    problem: str | None = None


class Algebra:
    """Safe to call from several threads. The process starts with the first request and ends with this object."""

    def __init__(self, *, tolerance: float, strict: bool, timeout_s: float) -> None:
        self._settings = {"tolerance": tolerance, "strict": strict, "timeout_s": timeout_s}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._known: dict[tuple[str, ...], Verdict] = {}

    def check(self, golds: Sequence[str], answer: str) -> Verdict:
        """Samples of one prompt often end alike, so verdicts are kept."""
        question = (answer, *golds)
        with self._lock:
            if question not in self._known:
                if len(self._known) >= _KEPT_VERDICTS:
                    self._known.clear()
                self._known[question] = self._check(golds, answer)
            return self._known[question]

    def _check(self, golds: Sequence[str], answer: str) -> Verdict:
        if self._process is None:
            self._process = self._start()
        reply = _ask(self._process, {"golds": list(golds), "answer": answer, **self._settings})
        if reply is None:
            _end(self._process)
            self._process = None
            return Verdict(correct=False, found=True, problem="the answer could not be compared in time or memory")
        return Verdict(correct=reply["correct"], found=reply["found"])

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "core_rl_math.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )
        weakref.finalize(self, _end, process)
        assert process.stdout is not None
        if not process.stdout.readline():
            _end(process)
            message = "the process that compares answers does not start; `python -m core_rl_math.worker` says why"
            raise RuntimeError(message)
        return process


def _ask(process: subprocess.Popen[str], request: dict[str, Any]) -> dict[str, Any] | None:
    """The reply, None if the process ended instead."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
    except BrokenPipeError:
        return None
    reply: dict[str, Any] | None = json.loads(line) if line else None
    return reply


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            try:
                stream.close()
            except BrokenPipeError:
                continue  # a request that it never read
