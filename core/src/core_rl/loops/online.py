"""The online loop: rollout, score, advantage, update, sync. Read it from top to bottom.

    prompts ──rollout──▶ groups ──reward──▶ batch ──log-probabilities, advantages──▶ optimizer steps ──▶ weights ──▶ rollout

Engines, algorithms and rewards are whatever the run file names; the loop knows their contracts and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from core_rl.data.sample import Group, Prompt
from core_rl.errors import DataError, RunError
from core_rl.loops.clock import Clock
from core_rl.loops.collect import collect
from core_rl.loops.evaluate import evaluate
from core_rl.loops.experience import make_experience, minibatches
from core_rl.loops.feed import PromptFeed
from core_rl.loops.metrics import length_metrics, speed_metrics, train_metrics
from core_rl.scoring import reward_metrics

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.loops.parts import Parts
    from core_rl.loops.session import Session
    from core_rl.roles.train import StepReport

MAX_SKIPPED_IN_A_ROW = 5
"""So many steps whose gradient is not finite, one after the other, end the run."""


@attrs.frozen(kw_only=True)
class Position:
    """Where a run stands: all that the loop needs to go on, beside what the engines save."""

    step: int = 0
    prompts_used: int = 0


async def train_online(
    parts: Parts, session: Session, *, prompts: Sequence[Prompt], held_out: Sequence[Prompt], start: Position
) -> str:
    """Train from `start` to the last step, or until someone asks to stop. Returns the reason why it ended."""
    settings = parts.file.run
    feed = PromptFeed(prompts, seed=settings.seed, position=start.prompts_used)
    await parts.transport.sync(parts.train, parts.rollout, start.step)
    if start.step == 0 and parts.file.eval.every and parts.file.eval.at_start:
        session.log(0, await _evaluate(parts, session, held_out, step=0))

    skipped_in_a_row = 0
    for step in range(start.step + 1, settings.steps + 1):
        metrics, groups = await train_one_step(parts, session, feed, step)
        skipped_in_a_row = skipped_in_a_row + 1 if metrics["optim/skipped"] else 0
        if _due(step, parts.file.eval.every, last=settings.steps):
            metrics |= await _evaluate(parts, session, held_out, step=step)
        session.log(step, metrics)
        if _due(step, settings.log_samples_every, last=settings.steps):
            session.journal.log_samples(step, groups)

        reason = session.reason_to_stop(step, metrics)
        if skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
            message = f"step {step}: the gradient was not finite {skipped_in_a_row} times in a row; lower train_engine.lr"
            raise RunError(message)
        last = reason is not None or step == settings.steps
        if _due(step, parts.file.checkpoint.every) or (last and (parts.file.checkpoint.at_end or reason)):
            session.save(parts.train, Position(step=step, prompts_used=feed.position))
        if reason is not None:
            return reason
    return "done"


async def train_one_step(
    parts: Parts, session: Session, feed: PromptFeed, step: int
) -> tuple[dict[str, float], Sequence[Group]]:
    """One round of rollout and training. The metrics, and the groups they speak of."""
    algorithm, clock = parts.algorithm, Clock()

    with clock("rollout"):
        collected = await collect(
            parts,
            feed.next(parts.file.run.prompts_per_step),
            n=algorithm.group_size,
            params=parts.file.sampling,
            place=(step,),
            on_progress=lambda done, total: session.journal.progress("rollout", done, total),
        )
    if not collected.groups:
        message = f"data: all {len(collected.too_long)} prompts of step {step} are too long for the model's context"
        raise DataError(message)

    batch, metrics = make_experience(parts, collected.groups, clock)

    with clock("train"):
        reports = optimize(parts, session, batch)
        if algorithm.kl.reset_every and step % algorithm.kl.reset_every == 0 and parts.needs_reference:
            parts.train.reset_reference()

    with clock("sync"):
        await parts.transport.sync(parts.train, parts.rollout, step)

    metrics |= reward_metrics(collected.groups) | length_metrics(collected.groups) | train_metrics(reports)
    metrics |= {"data/epoch": feed.epoch, "data/too_long": float(len(collected.too_long))}
    metrics |= parts.rollout.stats()
    metrics |= clock.metrics() | speed_metrics(tokens=batch.num_tokens, seconds=clock.elapsed)
    return metrics, collected.groups


def optimize(parts: Parts, session: Session, batch: PackedBatch) -> list[StepReport]:
    """Every optimizer step on one batch: `epochs` passes over `minibatches` parts of it."""
    if not batch.loss_mask.any():
        return []
    reports: list[StepReport] = []
    total = parts.algorithm.epochs * parts.algorithm.minibatches
    for _ in range(parts.algorithm.epochs):
        for part in minibatches(batch, parts.algorithm.minibatches):
            session.journal.progress("train", len(reports), total)
            if part.loss_mask.any():
                reports.append(parts.train.train_step(part, parts.objective, parts.aggregation))
    return reports


async def _evaluate(parts: Parts, session: Session, held_out: Sequence[Prompt], *, step: int) -> dict[str, float]:
    clock = Clock()
    with clock("eval"):
        metrics, groups = await evaluate(
            parts, held_out, on_progress=lambda done, total: session.journal.progress("eval", done, total)
        )
    session.journal.log_samples(step, groups, split="eval")
    return metrics | {"time/eval": clock.metrics()["time/eval"]}


def _due(step: int, every: int, *, last: int | None = None) -> bool:
    return every > 0 and (step % every == 0 or step == last)
