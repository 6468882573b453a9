"""The report's table of completions: what the model said before and after."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from core_rl.run.record import Row, RunRecord
from core_rl.run.text import number, visible, without_markers

_PAIRS = 16
"""Rows of the table."""


def completions(record: RunRecord) -> str:
    """Held-out completions at the first and last evaluation; without any, the training completions logged last."""
    held_out = record.samples("eval")
    if len(held_out) > 1:
        (first, before), (last, after) = (next(iter(held_out.items())), list(held_out.items())[-1])
        earlier: Mapping[Any, Row] = {row["id"]: row for row in reversed(before)}
        rows = [(row, earlier.get(row["id"])) for row in _one_each(after)][:_PAIRS]
        head = f"<th>prompt</th><th>answer</th><th>step {first}</th><th>step {last}</th>"
        body = "".join(f"<tr>{_asked(row)}{_said(old)}{_said(row)}</tr>" for row, old in rows)
        title = f"Held-out completions, before and after: the first {len(rows)} prompts"
    else:
        logged = held_out or record.samples("train")
        if not logged:
            return ""
        last, after = list(logged.items())[-1]
        head = f"<th>prompt</th><th>answer</th><th>step {last}</th>"
        body = "".join(f"<tr>{_asked(row)}{_said(row)}</tr>" for row in after[:_PAIRS])
        title = f"Completions of step {last}"
    return f'<h2>{title}</h2><div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _one_each(rows: Sequence[Row]) -> list[Row]:
    """The first sample of each prompt."""
    return list({row["id"]: row for row in reversed(rows)}.values())[::-1]


def _asked(row: Row) -> str:
    answer = "" if row.get("answer") is None else visible(str(row["answer"]))
    return f"<td>{escaped(without_markers(str(row['prompt'])))}</td><td>{escaped(answer)}</td>"


def _said(row: Row | None) -> str:
    if row is None:
        return "<td></td>"
    reward = row.get("reward")
    kind = "failed" if reward is None else "good" if reward > 0 else "none"
    cut = " · cut" if row.get("finish_reason") == "length" else ""
    return f'<td>{escaped(str(row["completion"]))}<small class="{kind}">reward {number(reward)}{cut}</small></td>'


def escaped(value: Any) -> str:
    """Escaped for HTML; control characters are written out, line breaks stay."""
    return html.escape("\n".join(visible(line) for line in str(value).split("\n")))
