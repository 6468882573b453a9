r"""The process in which algebra is done: `python -m core_rl_math.worker`, one JSON request a line, one JSON reply a line.

A process of its own, because nothing inside one can be relied on to stop what a model may write: `\boxed{9^{9^{9^9}}}` keeps the
interpreter in one C call, holding the lock that every other thread needs, and takes all memory. Here the kernel ends it.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import signal
import sys
from typing import Any

_MEMORY_BYTES = 4 << 30
_FUNCTION = re.compile(r"(?<![\\A-Za-z])(sqrt|sin|cos|tan|log|ln|exp|pi)(?![A-Za-z])")
_ROOT = re.compile(r"\\sqrt\s*\(([^()]*)\)")
_PROSE = re.compile(
    r"(?<![\\A-Za-z])(?:(?!(?:sqrt|sin|cos|tan|log|exp|and)(?![A-Za-z]))[A-Za-z]{3,}"
    r"|(?:[Ss]o|[Ii]s|[Ii]t|[Ww]e|[Tt]o|[Oo]f|[Ii]n|[Aa]s|[Bb]y|[Hh]e|[Nn]o|[Aa]t|[Ii]f)(?![A-Za-z]))"
)


def main() -> None:
    """Answer requests until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's business
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the kernel's default ends the process, also inside a C call
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints must not look like a reply
    _limit_memory()
    import math_verify  # noqa: F401 — before the first time limit starts

    logging.disable(logging.CRITICAL)
    _reply(replies, {"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, request["timeout_s"])
        reply = check(request["golds"], request["answer"], tolerance=request["tolerance"], strict=request["strict"])
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        _reply(replies, reply)


def check(golds: list[str], answer: str, *, tolerance: float, strict: bool) -> dict[str, Any]:
    """Whether the answer, a formula or prose with one in it, equals one of the references; and whether it was a formula at all."""
    from math_verify import verify

    parsed = parse(answer)
    rounding = 15 if tolerance == 0 else max(0, min(15, round(-math.log10(tolerance))))
    for gold in golds:
        reference = parse(gold)
        if verify(reference, parsed, float_rounding=rounding, strict=strict, timeout_seconds=None):
            return {"correct": True, "found": True}
        if _near(reference, parsed, tolerance):
            return {"correct": True, "found": True}
    return {"correct": False, "found": bool(parsed)}


def parse(text: str) -> list[Any]:
    """What math-verify reads in a text: all of it when it is a formula, else the formula that the prose ends with."""
    import math_verify

    if _PROSE.search(re.sub(r"\\text\s*\{[^{}]*\}", "", text)):
        return list(math_verify.parse(text, parsing_timeout=None))
    formula = _ROOT.sub(r"\\sqrt{\1}", _FUNCTION.sub(r"\\\1", text)).replace("**", "^").strip("$ ").removeprefix("=")
    latex = math_verify.LatexExtractionConfig(boxed_match_priority=0)
    return list(math_verify.parse(f"\\boxed{{{formula}}}", extraction_config=[latex], parsing_timeout=None))


def _near(reference: list[Any], parsed: list[Any], tolerance: float) -> bool:
    try:
        gold, value = float(reference[0].evalf()), float(parsed[0].evalf())
    except (AttributeError, IndexError, TypeError, ValueError, OverflowError):  # one of them is no number
        return False
    whole = gold.is_integer() and value.is_integer()
    return value == gold if whole else abs(value - gold) <= tolerance * abs(gold)


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:
        return  # not on this system; the time limit still holds
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _reply(replies: Any, reply: dict[str, Any]) -> None:
    replies.write(json.dumps(reply) + "\n")
    replies.flush()


if __name__ == "__main__":
    main()
