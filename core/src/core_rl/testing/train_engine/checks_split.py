"""Checks that how a batch is cut changes nothing: into micro-batches, over ranks, by groups; and of batches at the edge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import torch

from core_rl.testing.train_engine.batches import SIZES, grouped_batch, with_masked_sequences
from core_rl.testing.train_engine.bench import every_rank
from core_rl.testing.train_engine.check import check
from core_rl.testing.train_engine.checks_forward import form_of_outputs, forward_pass
from core_rl.testing.train_engine.checks_step import further_steps, step
from core_rl.testing.train_engine.objectives import Ratio, WithinGroup
from core_rl.testing.train_engine.scripts import POLICY, TOKEN_MEAN, Step, forward, one_step, take_step, weights_of
from core_rl.testing.train_engine.setting import FEW_TOKENS

if TYPE_CHECKING:
    from core_rl.roles.train import StepReport, TrainEngine
    from core_rl.testing.train_engine.trial import Trial

MASKED = (0, 4, 9)
"""The first sequence, one in the middle, and the whole of the last group."""
NAN_GROUP = 3
"""A group of one sequence: only one rank sees the NaN."""


@check(after=(forward_pass, step))
def micro_batches(trial: Trial) -> None:
    """A small budget gives several micro-batches and the same numbers."""
    found, whole = (trial.run(one_step, max_tokens_per_micro_batch=budget) for budget in (FEW_TOKENS, 4096))
    outputs, at_once = trial.run(forward, max_tokens_per_micro_batch=FEW_TOKENS), trial.run(forward)
    for name in POLICY:
        trial.tensor(name, outputs[name], at_once[name])
    trial.step(found, whole)
    counts = found.report.num_micro_batches, whole.report.num_micro_batches
    trial.holds("num_micro_batches", counts[0] > counts[1], f"{counts[0]} with a small budget, {counts[1]} with a large one")


def step_within_groups(engine: TrainEngine) -> Step:
    return take_step(engine, grouped_batch(1), WithinGroup())


@check(after=(micro_batches,))
def whole_groups(trial: Trial) -> None:
    """An objective of unit `group` sees whole groups, on one rank and in one micro-batch, also beyond the budget."""
    expect = trial.expect(step_within_groups)
    found = trial.run(step_within_groups, max_tokens_per_micro_batch=FEW_TOKENS)
    trial.step(found, expect)
    size = sum(SIZES) / len(SIZES)
    trial.number("size of groups", found.report.metrics.get("sequences_of_group", 0.0), size, trial.allowed.metrics)


def one_sequence(engine: TrainEngine) -> tuple[torch.Tensor, Step]:
    batch = grouped_batch(1).select([2])
    return engine.forward(batch)["logprobs"], take_step(engine, batch)


@check(after=(step,))
def fewer_sequences_than_ranks(trial: Trial) -> None:
    """A batch of one sequence: ranks without one take part all the same."""
    (logprobs, found), (expect_logprobs, expect) = trial.both(one_sequence)
    trial.tensor("logprobs", logprobs, expect_logprobs)
    trial.step(found, expect)


def masked_sequences(engine: TrainEngine) -> tuple[torch.Tensor, Step]:
    batch = with_masked_sequences(grouped_batch(1), MASKED)
    return engine.forward(batch)["logprobs"], take_step(engine, batch)


@check(after=(step,))
def masked_sequence(trial: Trial) -> None:
    """Sequences that have nothing in the mask are not scored and change no gradient."""
    (logprobs, found), (expect_logprobs, expect) = trial.both(masked_sequences)
    trial.tensor("logprobs", logprobs, expect_logprobs)
    trial.step(found, expect)


@attrs.frozen(kw_only=True, eq=False)
class Idle:
    """A step that must not move the weights, between two that do."""

    before: Step
    outputs: torch.Tensor
    report: StepReport
    weights: dict[str, torch.Tensor]
    after: Step


def nothing_in_the_mask(engine: TrainEngine) -> Idle:
    batch = grouped_batch(1)
    empty = batch.with_loss_mask(torch.zeros_like(batch.loss_mask))
    before = take_step(engine, batch)
    report, outputs = engine.train_step(empty, Ratio(), TOKEN_MEAN), engine.forward(empty)["logprobs"]
    return Idle(before=before, outputs=outputs, report=report, weights=weights_of(engine), after=take_step(engine, batch))


@check(after=(form_of_outputs, further_steps))
def empty_mask(trial: Trial) -> None:
    """Nothing to learn from: a report of zeros, no log-probabilities, and neither momentum nor decay moves the weights."""
    found, expect = trial.both(nothing_in_the_mask)
    report = found.report
    zeros = (report.loss, report.grad_norm, report.num_tokens, report.num_micro_batches)
    trial.holds("report", zeros == (0.0, 0.0, 0, 0), f"{report}")
    trial.holds("outputs", not found.outputs.any(), "not all 0")
    trial.weights("unchanged weights", found.weights, found.before.weights, 0.0)
    trial.step(found.after, expect.after, which="next step ")


def nan_in_one_group(engine: TrainEngine) -> Idle:
    batch = grouped_batch(1)
    before = take_step(engine, batch)
    report = engine.train_step(batch, Ratio(nan_in_group=NAN_GROUP), TOKEN_MEAN)
    weights, outputs = weights_of(engine), engine.forward(batch)["logprobs"]
    return Idle(before=before, outputs=outputs, report=report, weights=weights, after=take_step(engine, batch))


@check(after=(further_steps,))
def nan_loss(trial: Trial) -> None:
    """A loss that is not a number, of a sequence that one rank has: no rank steps, and nothing is left of it in the optimizer."""
    found, expect = trial.both(nan_in_one_group)
    trial.holds("skipped", found.report.skipped, f"{found.report}")
    trial.weights("unchanged weights", found.weights, found.before.weights, 0.0)
    trial.tensor("logprobs", found.outputs, expect.outputs)
    trial.step(found.after, expect.after, which="next step ")


@check(after=(forward_pass, step), ranks="several")
def same_on_every_rank(trial: Trial) -> None:
    """Each rank returns the whole result, not only the first, and not its own part."""
    engine, batch = trial.engine(), grouped_batch(1)
    outputs: list[dict[str, torch.Tensor]] = every_rank(engine, "forward", batch, POLICY)
    reports: list[StepReport] = every_rank(engine, "train_step", batch, Ratio(), TOKEN_MEAN)
    for rank in range(1, trial.world_size):
        for name in POLICY:
            trial.tensor(f"rank {rank} {name}", outputs[rank][name], outputs[0][name], trial.allowed.same)
        found, first = (attrs.asdict(reports[which]) for which in (rank, 0))
        trial.metrics(f"rank {rank} metrics", found.pop("metrics"), first.pop("metrics"), trial.allowed.same)
        trial.metrics(f"rank {rank} report", found, first, trial.allowed.same)
