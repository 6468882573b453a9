"""Checks of what an engine says of tokens."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch

from core_rl.testing.train_engine.batches import grouped_batch, with_ids_to_gather
from core_rl.testing.train_engine.check import check
from core_rl.testing.train_engine.scripts import POLICY, forward, logprobs

if TYPE_CHECKING:
    from core_rl.roles.train import TrainEngine
    from core_rl.testing.train_engine.trial import Trial


@check(every_model=True)
def forward_pass(trial: Trial) -> None:
    """Log-probabilities and entropies of the tokens in the mask are those of the reference."""
    mask = grouped_batch(1).loss_mask
    found, expect = trial.both(forward)
    for name in POLICY:
        trial.tensor(name, found[name].cpu()[mask], expect[name][mask])


@check(after=(forward_pass,))
def form_of_outputs(trial: Trial) -> None:
    """`forward` gives what was asked for and no more: [N] float32 on the CPU without gradient, 0 outside the mask."""
    batch = grouped_batch(1)
    found = trial.run(forward)
    trial.holds("names", set(found) == set(POLICY), f"{sorted(found)}")
    for name, tensor in found.items():
        fits = tensor.shape == batch.tokens.shape and tensor.dtype == torch.float32 and tensor.device.type == "cpu"
        trial.holds(f"{name} form", fits and not tensor.requires_grad, f"{list(tensor.shape)} {tensor.dtype} {tensor.device}")
        trial.holds(f"{name} outside", not tensor[~batch.loss_mask].any(), "not 0 outside the mask")


def facts(engine: TrainEngine) -> dict[str, Any]:
    return dict(engine.describe())


@check()
def description(trial: Trial) -> None:
    """`describe` gives facts that a manifest can hold, the number of the model's parameters among them."""
    found, expect = trial.both(facts)
    odd = {name: type(value).__name__ for name, value in found.items() if not _is_plain(value)}
    trial.holds("plain facts", not odd, f"{odd}")
    trial.holds("parameters", found.get("parameters") == expect["parameters"], f"{found.get('parameters')}")


def _is_plain(value: Any) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


@check(after=(forward_pass,))
def frozen_model(trial: Trial) -> None:
    """A teacher, which is never trained, says what the model says."""
    found, expect = trial.both(logprobs, frozen=True)
    trial.tensor("logprobs", found, expect)


def likeliest(engine: TrainEngine) -> dict[str, torch.Tensor]:
    return engine.forward(grouped_batch(1), ("logprobs",), top_k=5)


@check(after=(forward_pass,), needs=("topk_logprobs",))
def top_k(trial: Trial) -> None:
    """The likeliest tokens in each place, best first, and their log-probabilities."""
    batch = grouped_batch(1)
    found, expect = trial.both(likeliest)
    ids, values = found["topk_ids"], found["topk_logprobs"]
    trial.holds("form", ids.dtype == torch.int64 and values.dtype == torch.float32, f"{ids.dtype}, {values.dtype}")
    trial.tensor("topk_logprobs", values, expect["topk_logprobs"])
    if ids.shape != expect["topk_ids"].shape:
        return
    # two tokens that are equally likely may stand in either order
    best = expect["topk_logprobs"]
    clear = (best[:, :-1] - best[:, 1:]).abs() > 10 * trial.allowed.logprobs
    both_sides = torch.cat([clear[:, :1], clear[:, :-1] & clear[:, 1:]], dim=1) & batch.loss_mask[:, None]
    wrong = int((ids[:, :-1] != expect["topk_ids"][:, :-1])[both_sides].sum())
    trial.holds("topk_ids", wrong == 0, f"{wrong} of {int(both_sides.sum())} differ")


def gathered(engine: TrainEngine) -> torch.Tensor:
    return engine.forward(with_ids_to_gather(grouped_batch(1)))["gathered_logprobs"]


@check(after=(forward_pass,), needs=("gathered_logprobs",))
def gathered_tokens(trial: Trial) -> None:
    """Log-probabilities of given tokens in each place."""
    found, expect = trial.both(gathered)
    trial.tensor("gathered_logprobs", found, expect)
