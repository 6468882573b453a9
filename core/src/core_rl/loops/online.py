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
from core_rl.loops.canary import sync
from core_rl.loops.clock import Clock
from core_rl.loops.evaluate import evaluate
from core_rl.loops.experience import make_experience, minibatches
from core_rl.loops.feed import PromptFeed
from core_rl.loops.guard import MismatchGuard
from core_rl.loops.metrics import critic_metrics, length_metrics, speed_metrics, train_metrics
from core_rl.loops.refill import collect_step
from core_rl.loops.steering import steer
from core_rl.roles.rollout import SleepingEngine
from core_rl.scoring import reward_metrics

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.loops.parts import Parts
    from core_rl.loops.session import Session
    from core_rl.objective import PolicyObjective
    from core_rl.roles.train import StepReport

MAX_SKIPPED_IN_A_ROW = 5
"""So many steps whose gradient is not finite, one after the other, end the run."""


@attrs.frozen(kw_only=True)
class Position:
    """Where a run stands: all that the loop needs to go on, beside what the engines save."""

    step: int = 0
    prompts_used: int = 0
    kl_coef: float | None = None
    entropy_coef: float | None = None
    entropy_acts: bool = True


async def train_online(
    parts: Parts, session: Session, *, prompts: Sequence[Prompt], held_out: Sequence[Prompt], start: Position
) -> str:
    """Train from `start` to the last step, or until someone asks to stop. Returns the reason why it ended."""
    settings = parts.file.run
    feed = PromptFeed(prompts, seed=settings.seed, position=start.prompts_used)
    _restore(parts.objective, start)
    guard = MismatchGuard(section=parts.file.guard, folder=session.folder, decode=parts.tokenizer.decode)
    await sync(parts, start.step)
    if start.step == 0 and parts.file.eval.every and parts.file.eval.at_start:
        session.log(0, await _evaluate(parts, session, held_out, step=0))

    skipped_in_a_row = 0
    for step in range(start.step + 1, settings.steps + 1):
        metrics, groups = await train_one_step(parts, session, feed, guard, step)
        skipped_in_a_row = skipped_in_a_row + 1 if metrics["optim/skipped"] else 0
        if due(step, parts.file.eval.every, last=settings.steps):
            metrics |= await _evaluate(parts, session, held_out, step=step)
        session.log(step, metrics)
        if due(step, settings.log_samples_every, last=settings.steps):
            session.journal.log_samples(step, groups)

        reason = session.reason_to_stop(step, metrics)
        if skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
            message = f"step {step}: the gradient was not finite {skipped_in_a_row} times in a row; lower train_engine.lr"
            raise RunError(message)
        last = reason is not None or step == settings.steps
        if due(step, parts.file.checkpoint.every) or (last and (parts.file.checkpoint.at_end or reason)):
            session.save(parts.save, _position(parts.objective, feed, step))
        if reason is not None:
            return reason
    return "done"


async def train_one_step(
    parts: Parts, session: Session, feed: PromptFeed, guard: MismatchGuard, step: int
) -> tuple[dict[str, float], Sequence[Group]]:
    """One round of rollout and training. The metrics, and the groups they speak of."""
    algorithm, clock = parts.algorithm, Clock()

    with clock("rollout"):
        collected = await collect_step(
            parts, feed, step, on_progress=lambda done, total: session.journal.progress("rollout", done, total)
        )
    if isinstance(parts.rollout, SleepingEngine):
        await parts.rollout.sleep()
    if not collected.groups:
        message = f"data: all {len(collected.too_long)} prompts of step {step} are too long for the model's context"
        raise DataError(message)

    batch, metrics = await make_experience(parts, collected.groups, clock, step=step)
    differences = guard.before(step, batch, parts.train) if parts.proximal == "recompute" else {}

    with clock("train"):
        reports, critic_reports = optimize(parts, session, batch, step)
        if algorithm.kl.reset_every and step % algorithm.kl.reset_every == 0 and parts.needs_reference:
            parts.train.reset_reference()

    with clock("sync"):
        await sync(parts, step)

    metrics |= reward_metrics(collected.sampled) | length_metrics(collected.sampled) | dict(collected.metrics)
    metrics |= train_metrics(reports) | critic_metrics(critic_reports) | differences
    if not differences:
        guard.judge(step, metrics, batch, parts.train)
    metrics |= {"kl/coef": parts.objective.kl_coef} if algorithm.kl.coef else {}
    metrics |= {"entropy/coef": parts.objective.entropy_coef} if parts.objective.entropy_grad else {}
    steer(parts.objective, algorithm, metrics, sequences=batch.num_sequences)
    metrics |= {"data/epoch": feed.epoch, "data/too_long": float(len(collected.too_long))}
    metrics |= parts.rollout.stats()
    metrics |= clock.metrics() | speed_metrics(tokens=batch.num_tokens, seconds=clock.elapsed)
    return metrics, collected.sampled


def optimize(parts: Parts, session: Session, batch: PackedBatch, step: int) -> tuple[list[StepReport], list[StepReport]]:
    """Every optimizer step on one batch, of the policy and of the critic: `epochs` passes over `minibatches` parts of it."""
    reports: list[StepReport] = []
    critic_reports: list[StepReport] = []
    algorithm = parts.algorithm
    policy_learns = algorithm.critic is None or step > algorithm.critic.warmup_steps
    todo = [part for _ in range(algorithm.epochs) for part in minibatches(batch, algorithm.minibatches) if part.loss_mask.any()]
    for done, part in enumerate(todo):
        session.journal.progress("train", done, len(todo))
        if parts.critic is not None and parts.value_objective is not None:
            critic_reports.append(parts.critic.train_step(part, parts.value_objective, parts.value_aggregation))
        if policy_learns:
            prepared = parts.objective.prepare(part, parts.aggregation)
            reports.append(parts.train.train_step(prepared, parts.objective, parts.aggregation))
    return reports, critic_reports


async def _evaluate(parts: Parts, session: Session, held_out: Sequence[Prompt], *, step: int) -> dict[str, float]:
    clock = Clock()
    with clock("eval"):
        metrics, groups = await evaluate(
            parts, held_out, on_progress=lambda done, total: session.journal.progress("eval", done, total)
        )
    session.journal.log_samples(step, groups, split="eval")
    return metrics | {"time/eval": clock.metrics()["time/eval"]}


def _restore(objective: PolicyObjective, start: Position) -> None:
    """Coefficients that are steered go on from where they were."""
    if start.kl_coef is not None:
        objective.kl_coef = start.kl_coef
    if start.entropy_coef is not None:
        objective.entropy_coef = start.entropy_coef
    objective.entropy_acts = start.entropy_acts


def _position(objective: PolicyObjective, feed: PromptFeed, step: int) -> Position:
    return Position(
        step=step,
        prompts_used=feed.position,
        kl_coef=objective.kl_coef,
        entropy_coef=objective.entropy_coef,
        entropy_acts=objective.entropy_acts,
    )


def due(step: int, every: int, *, last: int | None = None) -> bool:
    """Every so many steps (0: never), and at the last one."""
    return every > 0 and (step % every == 0 or step == last)
