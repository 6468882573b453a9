"""What came of a suite, as plain facts for JSON and as tables: the same measurements that the tests assert."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from core_rl.testing.train_engine.suite import CHECKS, Outcome, Suite, expected_failure

QUANTITIES = ("logprobs", "entropy", "loss", "grad_norm", "weights", "metrics")
"""Of the first table: all that the plain forward pass and the plain step are compared by."""
PLAIN = ("forward_pass", "step", "micro_batches")


def record(suite: Suite) -> dict[str, Any]:
    """Judge all cases of a suite."""
    subject = suite.subject
    return {
        "title": subject.title,
        "engine": subject.engine,
        "options": {name: str(value) for name, value in subject.options.items()},
        "world_sizes": list(subject.world_sizes),
        "cases": [_case(suite, suite.outcome(case)) for case in suite.cases()],
    }


def _case(suite: Suite, outcome: Outcome) -> dict[str, Any]:
    case = outcome.case
    return {
        "check": case.check,
        "model": case.model,
        "world_size": case.world_size,
        "status": outcome.status,
        "reason": outcome.reason,
        "expected_failure": expected_failure(suite.subject, case),
        "measured": [
            {"what": one.what, "difference": _finite(one.difference), "allowed": one.allowed, "note": one.note}
            for one in outcome.measured
        ],
    }


def _finite(value: float) -> float | str:
    """JSON has no word for infinity."""
    return value if math.isfinite(value) else str(value)


def tables(records: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: the measured differences of each engine by quantity, and every check of every engine."""
    return f"{quantities(records)}\n{checks(records)}{_footnotes(records)}"


def quantities(records: Sequence[Mapping[str, Any]]) -> str:
    """Engine by quantity: the largest difference over all models and numbers of ranks, and to other micro-batches."""
    lines = [
        f"| | engine | ranks | {' | '.join(QUANTITIES)} |",
        f"|---|---|---|{'---|' * len(QUANTITIES)}",
    ]
    for number, one in enumerate(records, start=1):
        found = [_largest(one, what) for what in QUANTITIES]
        ranks = ", ".join(map(str, one["world_sizes"]))
        lines.append(f"| {number} | {one['title']} | {ranks} | {' | '.join(found)} |")
    return "\n".join(lines) + "\n"


def _largest(one: Mapping[str, Any], what: str) -> str:
    values = [
        float(m["difference"]) for case in one["cases"] if case["check"] in PLAIN for m in case["measured"] if m["what"] == what
    ]
    return f"{max(values):.1e}" if values else "-"


def checks(records: Sequence[Mapping[str, Any]]) -> str:
    """Check by engine, under its number. A cell is the largest difference among the check's quantities, in parts of what is allowed."""
    numbers = " | ".join(str(number) for number in range(1, len(records) + 1))
    lines = [f"| check | {numbers} |", f"|---|{'---|' * len(records)}"]
    for name in CHECKS:
        cells = [cell([case for case in one["cases"] if case["check"] == name]) for one in records]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def cell(cases: Iterable[Mapping[str, Any]]) -> str:
    """All models and numbers of ranks of a check in a few characters; the worst of them is said."""
    cases = list(cases)
    if any(case["status"] == "failed" and not case["expected_failure"] for case in cases):
        return "**fails**"
    if any(case["status"] == "failed" for case in cases):
        return "expected failure"
    blocked = next((case for case in cases if case["status"] == "blocked"), None)
    if blocked is not None:
        return f"rests on {blocked['reason']}"
    judged = [case for case in cases if case["status"] == "passed"]
    if not judged:
        return "-"
    shares = [(_share(m), _plain(m["what"])) for case in judged for m in case["measured"]]
    share, what = max(shares, default=(0.0, ""))
    return f"{share:.1%} {what}" if share else "exact"


def _share(measured: Mapping[str, Any]) -> float:
    return float(measured["difference"]) / measured["allowed"] if measured["allowed"] else 0.0


def _plain(what: str) -> str:
    """`step 2 weights` is a difference of weights."""
    return re.sub(r"^(step \d+|rank \d+|on \d+|next step|saved|loaded) ", "", what)


def _footnotes(records: Sequence[Mapping[str, Any]]) -> str:
    """Why checks fail, expectedly or not, and why some do not apply."""
    lines: dict[str, None] = {}
    for one in records:
        for case in one["cases"]:
            where = f"{one['title']}, {case['check']}"
            if case["status"] == "failed":
                reason = case["expected_failure"] or case["reason"].splitlines()[0]
                lines[f"- {where} ({case['model']}, {case['world_size']} ranks): {reason}"] = None
            elif case["status"] == "skipped":
                lines[f"- {where}: {case['reason']}"] = None
    return "\n" + "\n".join(lines) + "\n" if lines else ""
