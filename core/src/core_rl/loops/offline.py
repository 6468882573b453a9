"""The offline loop: rows of a data set, tokens, update. Read it from top to bottom.

    rows ──encode──▶ batch ──log-probabilities of the reference──▶ what the loss must know of the whole batch ──▶ one optimizer step

Nothing is sampled. Engines, losses and data are whatever the run file names; the loop knows their contracts and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from core_rl.errors import DataError, RunError
from core_rl.loops.clock import Clock
from core_rl.loops.feed import RowFeed
from core_rl.loops.metrics import speed_metrics, train_metrics
from core_rl.loops.offline_evaluate import evaluate_rows
from core_rl.loops.online import MAX_SKIPPED_IN_A_ROW, due

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.loops.offline_parts import OfflineParts
    from core_rl.loops.session import Session
    from core_rl.roles.train import StepReport


@attrs.frozen(kw_only=True)
class OfflinePosition:
    """Where a run stands: all that the loop needs to go on, beside what the engine saves."""

    step: int = 0
    rows_used: int = 0


def train_offline(
    parts: OfflineParts, session: Session, *, rows: Sequence[Any], held_out: Sequence[Any], start: OfflinePosition
) -> str:
    """Train from `start` to the last step, or until someone asks to stop. Returns the reason why it ended."""
    settings, evaluation, kept = parts.file.run, parts.file.eval, parts.file.checkpoint
    feed = RowFeed(rows, seed=settings.seed, position=start.rows_used)
    if start.step == 0 and evaluation.every and evaluation.at_start:
        session.log(0, _evaluate(parts, session, held_out))

    skipped_in_a_row = 0
    for step in range(start.step + 1, settings.steps + 1):
        metrics = train_one_step(parts, session, feed, step)
        skipped_in_a_row = skipped_in_a_row + 1 if metrics["optim/skipped"] else 0
        if due(step, evaluation.every, last=settings.steps):
            metrics |= _evaluate(parts, session, held_out)
        session.log(step, metrics)

        reason = session.reason_to_stop(step, metrics)
        if skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
            message = f"step {step}: the gradient was not finite {skipped_in_a_row} times in a row; lower train_engine.lr"
            raise RunError(message)
        last = reason is not None or step == settings.steps
        if due(step, kept.every) or (last and (kept.at_end or reason)):
            session.save(parts.save, OfflinePosition(step=step, rows_used=feed.position))
        if reason is not None:
            return reason
    return "done"


def train_one_step(parts: OfflineParts, session: Session, feed: RowFeed[Any], step: int) -> dict[str, float]:
    """One optimizer step on the next rows, and its metrics."""
    clock = Clock()
    with clock("data"):
        made = parts.batch(feed.next(parts.file.run.prompts_per_step))
    if made.batch is None:
        message = f"data: all {made.too_long} rows of step {step} are too long; see algorithm.encoding.too_long and max_length"
        raise DataError(message)

    with clock("logprob"):
        batch = parts.prepared(made.batch)

    session.journal.progress("train", 0, 1)
    with clock("train"):
        report = parts.train.train_step(batch, parts.objective, parts.aggregation)

    metrics = train_metrics([report]) | _counts(batch, report)
    metrics |= {"data/epoch": feed.epoch, "data/too_long": float(made.too_long)}
    return metrics | clock.metrics() | speed_metrics(tokens=batch.num_tokens, seconds=clock.elapsed)


def _evaluate(parts: OfflineParts, session: Session, held_out: Sequence[Any]) -> dict[str, float]:
    clock = Clock()
    session.journal.progress("eval", 0, 1)
    with clock("eval"):
        metrics = evaluate_rows(parts, held_out)
    return metrics | {"time/eval": clock.metrics()["time/eval"]}


def _counts(batch: PackedBatch, report: StepReport) -> dict[str, float]:
    return {
        "batch/tokens": float(report.num_tokens),
        "batch/sequences": float(batch.num_sequences),
        "batch/loss_tokens": float(batch.loss_mask.sum()),
    }
