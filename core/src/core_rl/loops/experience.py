"""From scored groups to a batch to train on: pack, reject, log-probabilities and values, advantages, resampling."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import attrs
import torch

from core_rl.data.packing import pack
from core_rl.data.sample import Group
from core_rl.errors import RewardError
from core_rl.numerics.proximal import loglinear_alpha
from core_rl.numerics.whitening import masked_mean
from core_rl.objective import apply_kl_to_advantages, apply_kl_to_rewards, kl_of_tokens
from core_rl.seeds import derive

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.loops.clock import Clock
    from core_rl.loops.parts import Parts
    from core_rl.roles.scoring import Rejection
    from core_rl.roles.train import TokenOutput


def scored_groups(groups: Sequence[Group]) -> list[Group]:
    """The groups without the samples whose reward failed, and without groups that have none left."""
    kept = [attrs.evolve(group, samples=[sample for sample in group.samples if sample.reward is not None]) for group in groups]
    kept = [group for group in kept if group.samples]
    if not kept:
        errors = [
            part.error for group in groups for sample in group.samples for part in sample.reward_parts.values() if part.error
        ]
        message = f"rewards: every reward of this step failed, first with: {errors[0] if errors else 'no sample was scored'}"
        raise RewardError(message)
    return kept


async def make_experience(
    parts: Parts, groups: Sequence[Group], clock: Clock, *, step: int
) -> tuple[PackedBatch, dict[str, float]]:
    """The batch with `advantages` and whatever the objective needs, and the metrics of how it was made.

    Rejections narrow `loss_mask` and leave the sequences in place, so that group statistics are those of all samples; an
    engine spends nothing on a sequence without a token in the mask. When the mask is empty there is nothing to learn.
    """
    batch = pack(scored_groups(groups))
    batch = batch.with_sequences(raw_rewards=batch["rewards"])
    sampled = batch.loss_mask.sum()
    batch, early = _reject(parts.early_rejections, batch)
    with clock("logprob"):
        batch = _with_logprobs(parts, batch, version=step - 1)
        if parts.teacher is not None and batch.loss_mask.any():
            batch = await parts.teacher.annotate(batch, parts.train)
    batch, measured = _with_advantages(parts, batch)
    batch, late = _reject(parts.late_rejections, batch)
    kept = batch.loss_mask.sum()
    counts = {
        "batch/tokens": float(batch.num_tokens),
        "batch/sequences": float(batch.num_sequences),
        "batch/loss_tokens": float(kept),
        "batch/rejected_frac": float(1 - kept / sampled.clamp(min=1)),
    }
    metrics = counts | early | late | measured | _advantage_metrics(batch)
    if parts.resampler is not None:
        chosen = parts.resampler(batch, derive(parts.file.run.seed, "resample", step))
        batch = batch.select(chosen)
        metrics["batch/resampled_frac"] = len(set(chosen)) / max(1, len(chosen))
    return batch, metrics


def minibatches(batch: PackedBatch, count: int) -> list[PackedBatch]:
    """`count` parts of nearly equal numbers of groups, in order; groups stay whole."""
    group = batch["group"].tolist()
    members: dict[int, list[int]] = {}
    for sequence, name in enumerate(group):
        members.setdefault(name, []).append(sequence)
    names = list(members)
    bounds = [round(part * len(names) / count) for part in range(count + 1)]
    parts = [[s for name in names[low:high] for s in members[name]] for low, high in pairwise(bounds)]
    return [batch.select(part) for part in parts if part]


def _with_logprobs(parts: Parts, batch: PackedBatch, *, version: int) -> PackedBatch:
    """Old log-probabilities, entropies and values in one pass of the policy; then the reference's and the critic's."""
    if not batch.loss_mask.any():
        return batch
    if parts.proximal == "rollout":
        batch = batch.with_tokens(old_logprobs=batch["rollout_logprobs"])
    elif parts.proximal == "loglinear":
        batch = batch.with_tokens(proximal_alpha=loglinear_alpha(batch["versions"], version))
    wanted: list[TokenOutput] = ["logprobs"] if parts.proximal == "recompute" else []
    wanted += ["entropy"] if parts.needs_entropy else []
    wanted += ["values"] if parts.shares_critic else []
    if wanted:
        found = parts.train.forward(batch, wanted)
        batch = batch.with_tokens(**{"old_logprobs" if name == "logprobs" else name: found[name] for name in wanted})
    if parts.needs_reference:
        batch = batch.with_tokens(ref_logprobs=parts.train.forward(batch, ["logprobs"], weights="reference")["logprobs"])
    if parts.critic is not None:
        batch = batch.with_tokens(values=parts.critic.forward(batch, ["values"])["values"])
    return batch


def _with_advantages(parts: Parts, batch: PackedBatch) -> tuple[PackedBatch, dict[str, float]]:
    """Rewards normalised, less the KL penalty; advantages of them, normalised, less the KL penalty: as the algorithm says."""
    kl, coef = parts.algorithm.kl, parts.objective.kl_coef
    some = bool(batch.loss_mask.any())
    metrics: dict[str, float] = {}
    if parts.reward_norm is not None:
        rewards = batch["rewards"]
        batch = batch.with_sequences(rewards=parts.reward_norm(rewards, batch["group"], rewards.isfinite()))
    if some and kl.coef > 0 and kl.place == "reward":
        batch = apply_kl_to_rewards(batch, kl, coef)
    batch = batch.with_tokens(**parts.advantage(batch))
    if parts.advantage_norm is not None:
        group = batch["group"][batch.sequence_ids]
        batch = batch.with_tokens(advantages=parts.advantage_norm(batch["advantages"], group, batch.loss_mask))
    if some and kl.coef > 0 and kl.place == "advantage":
        batch = apply_kl_to_advantages(batch, kl, coef)
    if some and kl.coef > 0 and kl.place != "loss":
        metrics["kl/penalty"] = coef * float(masked_mean(kl_of_tokens(batch, kl), batch.loss_mask))
    return batch, metrics


def _reject(rejections: Sequence[Rejection], batch: PackedBatch) -> tuple[PackedBatch, dict[str, float]]:
    metrics: dict[str, float] = {}
    for rejection in rejections:
        verdict = rejection(batch)
        batch = batch.with_loss_mask(batch.loss_mask & verdict.keep)
        if verdict.weights is not None:
            weights = batch["weights"] * verdict.weights if "weights" in batch else verdict.weights
            batch = batch.with_tokens(weights=weights)
        metrics |= verdict.metrics
    return batch, metrics


def _advantage_metrics(batch: PackedBatch) -> dict[str, float]:
    advantages = batch["advantages"][batch.loss_mask]
    if advantages.numel() == 0:
        return {}
    low, high = torch.aminmax(advantages)
    metrics = {"advantage/mean": float(advantages.mean()), "advantage/min": float(low), "advantage/max": float(high)}
    if "returns" in batch and "values" in batch:
        metrics["critic/explained_var"] = _explained(batch["values"][batch.loss_mask], batch["returns"][batch.loss_mask])
    return metrics


def _explained(values: torch.Tensor, returns: torch.Tensor) -> float:
    """1 - Var(R - V) / Var(R): 1 for a critic that knows, 0 for one that says the same everywhere; 0 where returns do not vary."""
    spread = returns.double().var(correction=0)
    return float(1 - (returns.double() - values.double()).var(correction=0) / spread) if spread > 0 else 0.0
