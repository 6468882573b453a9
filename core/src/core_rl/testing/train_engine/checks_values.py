"""Checks of value heads: a critic in place of the policy, and one on the policy's trunk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from core_rl.testing.train_engine.batches import grouped_batch
from core_rl.testing.train_engine.check import check
from core_rl.testing.train_engine.checks_state import resume
from core_rl.testing.train_engine.checks_step import step
from core_rl.testing.train_engine.objectives import Ratio, Value
from core_rl.testing.train_engine.scripts import Step, take_step

if TYPE_CHECKING:
    import torch

    from core_rl.roles.train import TrainEngine
    from core_rl.testing.train_engine.trial import Trial


@attrs.frozen(kw_only=True, eq=False)
class Valued:
    """Values before and after a step."""

    before: torch.Tensor
    step: Step
    after: torch.Tensor


def critic_step(engine: TrainEngine) -> Valued:
    batch = grouped_batch(1)
    before = engine.forward(batch, ("values",))["values"]
    made = take_step(engine, batch, Value())
    return Valued(before=before, step=made, after=engine.forward(batch, ("values",))["values"])


def shared_step(engine: TrainEngine) -> Valued:
    batch = grouped_batch(1)
    before = engine.forward(batch, ("logprobs", "values"))["values"]
    made = take_step(engine, batch, Ratio(value_coef=0.5))
    return Valued(before=before, step=made, after=engine.forward(batch, ("values",))["values"])


@check(after=(step,), needs=("values",))
def value_head(trial: Trial) -> None:
    """heads `value`: a critic's values and its step are those of the reference."""
    _compare(trial, *trial.both(critic_step, heads="value"))


@check(after=(step,), needs=("values",))
def shared_value_head(trial: Trial) -> None:
    """heads `both`: values stand beside log-probabilities, and both train one trunk."""
    _compare(trial, *trial.both(shared_step, heads="both"))


def _compare(trial: Trial, found: Valued, expect: Valued) -> None:
    trial.tensor("values", found.before, expect.before)
    trial.step(found.step, expect.step)
    trial.tensor("values after it", found.after, expect.after)


@check(after=(resume, value_head, shared_value_head), needs=("values",))
def resume_with_values(trial: Trial) -> None:
    """A value head is in the checkpoint, of either kind."""
    for heads, script in (("value", critic_step), ("both", shared_step)):
        folder = trial.folder()
        first, second = trial.engine(heads=heads), trial.engine(heads=heads)
        before = script(first).after
        first.save(folder)
        second.load(folder)
        trial.tensor(f"{heads}", second.forward(grouped_batch(1), ("values",))["values"], before, trial.allowed.same)
        found, expect = script(second), script(first)
        trial.tensor(f"{heads} after a step", found.after, expect.after)
