"""Checks of optimizer steps, and of the weights that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.hf.load import load_model
from core_rl.hf.packed.weights import named_weights
from core_rl.testing.train_engine.batches import grouped_batch, with_ids_to_gather
from core_rl.testing.train_engine.check import check
from core_rl.testing.train_engine.checks_forward import forward_pass, gathered_tokens
from core_rl.testing.train_engine.models import SEED
from core_rl.testing.train_engine.objectives import Ratio
from core_rl.testing.train_engine.scripts import (
    POLICY,
    Step,
    forward,
    initial_weights,
    one_step,
    take_step,
    three_steps,
)

if TYPE_CHECKING:
    from core_rl.roles.train import TrainEngine
    from core_rl.testing.train_engine.trial import Trial

CLIPPED = 0.05
"""A norm well below that of the batches' gradients."""


@check(every_model=True)
def export(trial: Trial) -> None:
    """`export_weights` gives the model's own weights under their Hugging Face names, each once."""
    model = load_model(trial.spec(), seed=SEED)
    trial.weights("weights", trial.run(initial_weights), dict(named_weights(model)))


@check(after=(export, forward_pass), every_model=True)
def step(trial: Trial) -> None:
    """Loss, gradient norm, metrics and new weights of a step are those of the reference."""
    trial.step(*trial.both(one_step))


@check(after=(forward_pass, export), every_model=True)
def pretrained_model(trial: Trial) -> None:
    """Weights out of a folder, where norms and biases are no ones and zeros: the same outputs, and they are exported as they were."""
    found, expect = trial.both(forward, pretrained=True)
    for name in POLICY:
        trial.tensor(name, found[name], expect[name])
    trial.weights("weights", *trial.both(initial_weights, pretrained=True))


@check(after=(step,))
def further_steps(trial: Trial) -> None:
    """Gradients begin at 0 in each step; the optimizer's state and the schedule go on."""
    for number, (found, expect) in enumerate(zip(*trial.both(three_steps), strict=True), start=1):
        trial.step(found, expect, which=f"step {number} ")


@check(after=(step,))
def clipping(trial: Trial) -> None:
    """The norm of all gradients together decides, and the one before clipping is reported."""
    trial.step(*trial.both(one_step, max_grad_norm=CLIPPED))


def step_loss(engine: TrainEngine) -> float:
    return take_step(engine, grouped_batch(1)).report.loss


@check(after=(step,))
def temperature(trial: Trial) -> None:
    """The context's temperature divides the logits, in `forward` and in training."""
    found, expect = trial.both(forward, temperature=0.6)
    for name in POLICY:
        trial.tensor(name, found[name], expect[name])
    trial.number("loss", *trial.both(step_loss, temperature=0.6), trial.allowed.loss)


def step_with_entropy(engine: TrainEngine) -> Step:
    return take_step(engine, grouped_batch(1), Ratio(entropy_coef=0.5))


@check(after=(step,), needs=("entropy_grad",))
def entropy_gradient(trial: Trial) -> None:
    """An objective that asks for it gets an entropy with a gradient."""
    trial.step(*trial.both(step_with_entropy))


def step_with_direct_term(engine: TrainEngine) -> Step:
    return take_step(engine, grouped_batch(1), Ratio(direct_coef=0.003))


@check(after=(step,))
def direct_term(trial: Trial) -> None:
    """A term that has its own weights is added as it is."""
    trial.step(*trial.both(step_with_direct_term))


def step_with_gathered(engine: TrainEngine) -> Step:
    return take_step(engine, with_ids_to_gather(grouped_batch(1)), Ratio(gathered_coef=0.1))


@check(after=(step, gathered_tokens), needs=("gathered_logprobs",))
def gathered_gradient(trial: Trial) -> None:
    """Log-probabilities of given tokens reach the objective, with a gradient."""
    trial.step(*trial.both(step_with_gathered))
