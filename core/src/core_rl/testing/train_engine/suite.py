"""All checks of a subject: which apply, what came of each, and what is not judged because of another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import attrs

from core_rl.testing.train_engine import checks_forward, checks_split, checks_state, checks_step, checks_values
from core_rl.testing.train_engine.bench import Bench
from core_rl.testing.train_engine.check import Check
from core_rl.testing.train_engine.differences import Measured
from core_rl.testing.train_engine.subject import Subject
from core_rl.testing.train_engine.trial import Trial

CHECKS: dict[str, Check] = {
    check.name: check
    for check in (
        checks_forward.forward_pass,
        checks_forward.form_of_outputs,
        checks_forward.frozen_model,
        checks_forward.top_k,
        checks_forward.gathered_tokens,
        checks_forward.description,
        checks_step.export,
        checks_step.pretrained_model,
        checks_step.step,
        checks_step.further_steps,
        checks_step.clipping,
        checks_step.temperature,
        checks_step.entropy_gradient,
        checks_step.direct_term,
        checks_step.gathered_gradient,
        checks_split.micro_batches,
        checks_split.whole_groups,
        checks_split.fewer_sequences_than_ranks,
        checks_split.masked_sequence,
        checks_split.empty_mask,
        checks_split.nan_loss,
        checks_split.same_on_every_rank,
        checks_state.resume,
        checks_state.resume_on_other_ranks,
        checks_state.save_hf,
        checks_state.reference,
        checks_state.resume_with_reference,
        checks_state.offload,
        checks_values.value_head,
        checks_values.shared_value_head,
        checks_values.resume_with_values,
    )
}
"""By name, each after those that it rests on."""

Status = Literal["passed", "failed", "skipped", "blocked"]


@attrs.frozen(kw_only=True)
class Case:
    """A check on one model and number of ranks."""

    check: str
    model: str
    world_size: int

    def __str__(self) -> str:
        return f"{self.check}-{self.model}-{self.world_size}"


@attrs.frozen(kw_only=True)
class Outcome:
    """What came of a case. `reason` is why it was skipped or blocked, or what failed."""

    case: Case
    status: Status
    reason: str = ""
    measured: tuple[Measured, ...] = ()
    error: Exception | None = None


class Suite:
    """The checks of one subject. Each case is judged once; `bench` may be shared by several suites."""

    def __init__(self, subject: Subject, bench: Bench) -> None:
        self.subject = subject
        self._bench = bench
        self._outcomes: dict[Case, Outcome] = {}
        self._results: dict[Any, Any] = {}

    def cases(self) -> Iterator[Case]:
        yield from cases(self.subject)

    def outcome(self, case: Case) -> Outcome:
        if case not in self._outcomes:
            self._outcomes[case] = self._judge(case)
        return self._outcomes[case]

    def _judge(self, case: Case) -> Outcome:
        check = CHECKS[case.check]
        reason = why_not(check, self.subject, case)
        if reason:
            return Outcome(case=case, status="skipped", reason=reason)
        for needed in self._rests_on(check, case):
            first = self.outcome(needed)
            if first.status in ("failed", "blocked") and not expected_failure(self.subject, needed):
                root = first.reason if first.status == "blocked" else needed.check
                return Outcome(case=case, status="blocked", reason=root)
        return self._run(check, case)

    def _rests_on(self, check: Check, case: Case) -> Iterator[Case]:
        """On the same model and number of ranks; on all numbers of ranks where the check goes from one to another."""
        sizes = self.subject.world_sizes if check.ranks == "others" else (case.world_size,)
        for name in check.after:
            model = case.model if CHECKS[name].every_model else next(iter(self.subject.models))
            for world_size in sizes:
                yield Case(check=name, model=model, world_size=world_size)

    def _run(self, check: Check, case: Case) -> Outcome:
        trial = Trial(self.subject, self._bench, case.model, case.world_size, self._results)
        error: Exception | None = None
        try:
            check.run(trial)
        except Exception as raised:  # noqa: BLE001 - of an engine of whoever; it is raised again by the test, and stands in the table
            error = raised
        try:
            trial.close()
        except Exception as raised:  # noqa: BLE001 - the same
            error = error or raised
        if error is not None:
            for world_size in self.subject.world_sizes:
                self._bench.give_up(world_size)
        return _outcome(case, tuple(trial.measured), error)


def _outcome(case: Case, measured: tuple[Measured, ...], error: Exception | None) -> Outcome:
    wrong = [str(one) for one in measured if not one.holds]
    if error is not None:
        wrong.append(f"{type(error).__name__}: {error}")
    reason = "\n".join(wrong)
    return Outcome(case=case, status="failed" if wrong else "passed", reason=reason, measured=measured, error=error)


def cases(subject: Subject) -> Iterator[Case]:
    """Every check on its models and numbers of ranks, also those that are skipped."""
    models = list(subject.models)
    for check in CHECKS.values():
        for world_size in subject.world_sizes:
            for model in models if check.every_model else models[:1]:
                yield Case(check=check.name, model=model, world_size=world_size)


def why_not(check: Check, subject: Subject, case: Case) -> str:
    """Why a check does not apply; empty where it does."""
    lacking = sorted(check.needs - subject.component.provides)
    if lacking:
        return f"the engine does not provide {', '.join(lacking)}"
    if check.ranks == "several" and case.world_size == 1:
        return "there is one rank"
    if check.ranks == "others" and len(subject.world_sizes) == 1:
        return "the suite has one number of ranks"
    return ""


def expected_failure(subject: Subject, case: Case) -> str | None:
    """The reason for which this case ought to fail."""
    reasons = subject.expected_failures
    return reasons.get(f"{case.check}@{case.world_size}") or reasons.get(case.check)
