"""Checks of what an engine keeps: checkpoints, exported models, the reference policy, and moves off the device and back."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from core_rl.testing.train_engine.batches import grouped_batch
from core_rl.testing.train_engine.check import check
from core_rl.testing.train_engine.checks_forward import forward_pass
from core_rl.testing.train_engine.checks_step import further_steps, step
from core_rl.testing.train_engine.scripts import Step, forward, logprobs, take_step, three_steps

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.roles.train import TrainEngine
    from core_rl.testing.train_engine.trial import Trial

MOVED = 1e-2
"""So far at least, in nats, the steps here move some log-probability."""


@check(after=(further_steps,))
def resume(trial: Trial) -> None:
    """Steps, a checkpoint, a new engine that loads it, and a step: as if there had been no end. Saving disturbs nothing."""
    whole, folder = trial.run(three_steps), trial.folder()
    first, second = trial.engine(), trial.engine()
    for seed in (1, 2):
        take_step(first, grouped_batch(seed))
    first.save(folder)
    second.load(folder)
    for name, engine in (("saved", first), ("loaded", second)):
        _same_step(trial, name, take_step(engine, grouped_batch(3)), whole[2], trial.allowed.same)


@check(after=(resume,), ranks="others")
def resume_on_other_ranks(trial: Trial) -> None:
    """A checkpoint of these ranks loads on each other number of ranks of the suite, with the optimizer's state and the schedule."""
    folder, first = trial.folder(), trial.engine()
    for seed in (1, 2):
        take_step(first, grouped_batch(seed))
    first.save(folder)
    expect = take_step(first, grouped_batch(3))
    for world_size in trial.subject.world_sizes:
        if world_size != trial.world_size:
            engine = trial.engine(world_size=world_size)
            engine.load(folder)
            trial.step(take_step(engine, grouped_batch(3)), expect, which=f"on {world_size} ")


def _same_step(trial: Trial, name: str, found: Step, expect: Step, allowed: float) -> None:
    trial.number(f"{name} loss", found.report.loss, expect.report.loss, allowed)
    trial.number(f"{name} lr", found.report.lr, expect.report.lr, allowed)
    trial.weights(f"{name} weights", found.weights, expect.weights, allowed)


@check(after=(step,), every_model=True)
def save_hf(trial: Trial) -> None:
    """After a step, transformers loads the model and its tokenizer, and gives the same log-probabilities."""
    import transformers

    engine, folder, batch = trial.engine(), trial.folder(), grouped_batch(1)
    take_step(engine, batch)
    found = engine.forward(batch)["logprobs"]
    engine.save_hf(folder)
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True, local_files_only=True
    )
    odd = {name: sorted(map(str, report[name])) for name in ("missing_keys", "unexpected_keys") if report[name]}
    trial.holds("names", not odd, f"{odd}")
    trial.tensor("logprobs", found, plain_logprobs(model.eval(), batch))
    trial.holds("tokenizer", _has_tokenizer(folder), "it is not in the folder")


@torch.no_grad()
def plain_logprobs(model: Any, batch: PackedBatch) -> torch.Tensor:
    """[N] by transformers alone, one sequence after the other; 0 outside the mask."""
    result = torch.zeros(batch.num_tokens)
    bounds = batch.cu_seqlens.tolist()
    for start, end in itertools.pairwise(bounds):
        tokens = batch.tokens[start:end]
        table = model(input_ids=tokens[None], use_cache=False).logits[0].log_softmax(-1)
        result[start + 1 : end] = table[:-1].gather(-1, tokens[1:, None])[:, 0]
    return result.where(batch.loss_mask, 0.0)


def _has_tokenizer(folder: Path) -> bool:
    import transformers

    try:
        return len(transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)) > 0
    except (OSError, ValueError):
        return False


def reference_logprobs(engine: TrainEngine) -> torch.Tensor:
    return engine.forward(grouped_batch(1), weights="reference")["logprobs"]


@check(after=(forward_pass,), needs=("ref_logprobs",))
def reference(trial: Trial) -> None:
    """The reference stays where it was while the policy moves, and becomes the policy when it is reset."""
    engine, initial = trial.engine(reference=True), trial.expect(logprobs)
    trial.tensor("at first", reference_logprobs(engine), initial)
    take_step(engine, grouped_batch(1))
    take_step(engine, grouped_batch(2))
    policy = logprobs(engine)
    moved = float((policy - initial).abs().max())
    trial.holds("the policy moves", moved > MOVED, f"by {moved:.2g}")
    trial.tensor("after steps", reference_logprobs(engine), initial)
    trial.tensor("policy after the reference", logprobs(engine), policy, trial.allowed.same)
    engine.reset_reference()
    trial.tensor("after reset", reference_logprobs(engine), policy)
    take_step(engine, grouped_batch(3))
    trial.tensor("after reset and a step", reference_logprobs(engine), policy)


@check(after=(resume, reference), needs=("ref_logprobs",))
def resume_with_reference(trial: Trial) -> None:
    """A reference that was reset is in the checkpoint."""
    folder = trial.folder()
    first, second = trial.engine(reference=True), trial.engine(reference=True)
    take_step(first, grouped_batch(1))
    first.reset_reference()
    take_step(first, grouped_batch(2))
    first.save(folder)
    second.load(folder)
    trial.tensor("reference", reference_logprobs(second), reference_logprobs(first))
    trial.tensor("policy", logprobs(second), logprobs(first))


@check(after=(further_steps, reference))
def offload(trial: Trial) -> None:
    """Off the device and back: outputs, weights and the optimizer's state are the same."""
    engine, whole = trial.engine(reference=True), trial.run(three_steps)
    initial = logprobs(engine)
    take_step(engine, grouped_batch(1))
    take_step(engine, grouped_batch(2))
    before = forward(engine)
    engine.offload()
    engine.onload()
    for name, tensor in forward(engine).items():
        trial.tensor(name, tensor, before[name], trial.allowed.same)
    if "ref_logprobs" in trial.subject.component.provides:
        trial.tensor("reference", reference_logprobs(engine), initial)
    _same_step(trial, "next step", take_step(engine, grouped_batch(3)), whole[2], trial.allowed.same)
