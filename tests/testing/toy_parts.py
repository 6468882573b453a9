# ruff: noqa: EM101, TRY003
"""Advantages, rejections, normalisers, KL estimators, aggregations and resamplers: right ones, and some with one fault each."""

from __future__ import annotations

import random

import torch

from core_rl.numerics.groups import Groups
from core_rl.numerics.segments import segment_mean
from core_rl.roles.scoring import Verdict


class GroupMean:
    """The reward less the group's mean."""

    needs = frozenset({"rewards", "group"})

    def per_sequence(self, batch):
        groups = Groups.of(batch["group"])
        return batch["rewards"] - groups.spread(groups.sum(batch["rewards"]) / groups.sizes)

    def __call__(self, batch):
        """An advantage."""
        advantages = self.per_sequence(batch)[batch.sequence_ids]
        return {"advantages": advantages.where(batch.loss_mask, 0.0)}


class PerSequence(GroupMean):
    def __call__(self, batch):
        return {"advantages": self.per_sequence(batch)}


class DividesByZero(GroupMean):
    def per_sequence(self, batch):
        groups = Groups.of(batch["group"])
        centred = super().per_sequence(batch)
        return centred / groups.spread(groups.sum(centred.square())).sqrt()


class ByIndex(GroupMean):
    """Later sequences count for more."""

    def per_sequence(self, batch):
        found = super().per_sequence(batch)
        return found * torch.arange(found.numel())


class ReadsValues(GroupMean):
    def per_sequence(self, batch):
        return super().per_sequence(batch) - segment_mean(batch["values"], batch.cu_seqlens, batch.loss_mask)


class MeansOverEverything(GroupMean):
    """Less a mean that counts masked tokens."""

    def per_sequence(self, batch):
        everything = torch.ones_like(batch.loss_mask)
        return super().per_sequence(batch) - segment_mean(batch["rollout_logprobs"], batch.cu_seqlens, everything)


class ChangesRewards(GroupMean):
    def per_sequence(self, batch):
        batch["rewards"].sub_(0.1)
        return super().per_sequence(batch)


class Keep:
    """A rejection that keeps what the sampler found likely."""

    def __call__(self, batch):
        keep = batch["rollout_logprobs"] > -2.0
        return Verdict(keep=keep, weights=keep.float(), metrics={"toy/kept_frac": float(keep.float().mean())})


class KeepsSequences(Keep):
    def __call__(self, batch):
        return Verdict(keep=torch.ones(batch.num_sequences, dtype=torch.bool))


class Explodes(Keep):
    def __call__(self, batch):
        return Verdict(keep=torch.ones_like(batch.loss_mask), weights=(-batch["rollout_logprobs"]).exp())


class MeanOfNothing(Keep):
    def __call__(self, batch):
        verdict = super().__call__(batch)
        kept = verdict.keep[batch.loss_mask].float().mean()
        return Verdict(keep=verdict.keep, metrics={"toy/kept_frac": float(kept)})


class Draws(Keep):
    def __call__(self, batch):
        return Verdict(keep=torch.rand(batch.num_tokens) > 0.5)


class Centre:
    """A normaliser: less the mean of what is in the mask and is a number."""

    def __call__(self, values, group, mask):
        sound = mask & ~values.isnan()
        mean = values.where(sound, 0.0).sum() / sound.sum().clamp(min=1)
        return (values - mean).where(sound, 0.0)


class CountsNan(Centre):
    def __call__(self, values, group, mask):
        mean = values.where(mask, 0.0).sum() / mask.sum().clamp(min=1)
        return (values - mean).where(mask, 0.0)


class CountsMasked(Centre):
    def __call__(self, values, group, mask):
        found = super().__call__(values, group, torch.ones_like(mask))
        return found.where(mask, 0.0)


class Divides(Centre):
    def __call__(self, values, group, mask):
        found = super().__call__(values, group, mask)
        return (found / found[mask].std()).where(mask & ~values.isnan(), 0.0)


class Squared:
    """A KL estimator: half the squared log-ratio, linear far out."""

    def __call__(self, logprobs, ref_logprobs):
        d = (logprobs - ref_logprobs).clamp(-1e3, 1e3)
        return d.square() / 2


class MeanKl(Squared):
    def __call__(self, logprobs, ref_logprobs):
        return super().__call__(logprobs, ref_logprobs).mean().expand(logprobs.shape)


class OffsetKl(Squared):
    def __call__(self, logprobs, ref_logprobs):
        return super().__call__(logprobs, ref_logprobs) + 0.5


class ExponentialKl(Squared):
    def __call__(self, logprobs, ref_logprobs):
        d = ref_logprobs - logprobs
        return d.exp() - d - 1


class NoSlope(Squared):
    def __call__(self, logprobs, ref_logprobs):
        return super().__call__(logprobs.detach(), ref_logprobs) + 0 * logprobs.clamp(-1e3, 1e3)


class LosesSlope(Squared):
    def __call__(self, logprobs, ref_logprobs):
        return super().__call__(logprobs.detach(), ref_logprobs)


class TokenMean:
    """An aggregation."""

    def __init__(self, max_new_tokens):
        self.longest = max_new_tokens

    def weights(self, batch):
        return batch.loss_mask.float() / batch.loss_mask.sum().clamp(min=1)


class WeighsMasked(TokenMean):
    def weights(self, batch):
        return torch.full((batch.num_tokens,), 1.0 / batch.num_tokens)


class NanWhenEmpty(TokenMean):
    def weights(self, batch):
        return (batch.loss_mask.float() / batch.loss_mask.sum()).where(batch.loss_mask.any(), torch.nan)


class ByGroupNumber(TokenMean):
    needs = frozenset({"group"})

    def weights(self, batch):
        return super().weights(batch) * (1 + batch["group"][batch.sequence_ids])


class Uniform:
    """A resampler: as many sequences, each drawn alike."""

    def __call__(self, batch, seed):
        generator = torch.Generator().manual_seed(seed)
        return torch.randint(0, batch.num_sequences, (batch.num_sequences,), generator=generator).tolist()


class Global(Uniform):
    def __call__(self, batch, seed):
        return [random.randrange(batch.num_sequences) for _ in range(batch.num_sequences)]


class Beyond(Uniform):
    def __call__(self, batch, seed):
        return [index + 1 for index in super().__call__(batch, seed)]


class Tensors(Uniform):
    def __call__(self, batch, seed):
        return torch.tensor(super().__call__(batch, seed))


class NanWithoutTokens(GroupMean):
    def __call__(self, batch):
        advantages = super().__call__(batch)["advantages"]
        return {"advantages": advantages - advantages.sum() / batch.loss_mask.sum()}


class RandomBaseline(GroupMean):
    def per_sequence(self, batch):
        return super().per_sequence(batch) - torch.rand(())


class RandomWeights(TokenMean):
    def weights(self, batch):
        return super().weights(batch) * torch.rand(())


class SumKl(Squared):
    def __call__(self, logprobs, ref_logprobs):
        return super().__call__(logprobs, ref_logprobs).sum()


class RandomKl(Squared):
    def __call__(self, logprobs, ref_logprobs):
        return super().__call__(logprobs, ref_logprobs) * torch.rand(())


class DropsMasked(Centre):
    def __call__(self, values, group, mask):
        return super().__call__(values, group, mask)[mask]


class RunningMean(Centre):
    def __call__(self, values, group, mask):
        found = super().__call__(values, group, mask)
        return (found - found.cumsum(0) / torch.arange(1, found.numel() + 1)).where(mask & ~values.isnan(), 0.0)


class InPlace(Centre):
    def __call__(self, values, group, mask):
        found = super().__call__(values, group, mask)
        return values.copy_(found)


class KeepsTheFirstHalf(Keep):
    def __call__(self, batch):
        return Verdict(keep=torch.arange(batch.num_tokens) < batch.num_tokens // 2)


class JudgesMasked(Keep):
    """A sequence's mean over all of its tokens."""

    def __call__(self, batch):
        mean = segment_mean(batch["rollout_logprobs"], batch.cu_seqlens, torch.ones_like(batch.loss_mask))
        return Verdict(keep=(mean > -1.2)[batch.sequence_ids])


class ChangesLogprobs(Keep):
    def __call__(self, batch):
        batch["rollout_logprobs"].clamp_(min=-1.0)
        return super().__call__(batch)


class ByReward(Uniform):
    """By weights that are all 0 where nothing was right."""

    def __call__(self, batch, seed):
        if not batch.loss_mask.any():
            raise ZeroDivisionError("no token is left")
        return super().__call__(batch, seed)


class Reorders(Uniform):
    def __call__(self, batch, seed):
        batch["rewards"].copy_(batch["rewards"].flip(0) + 1)
        return super().__call__(batch, seed)
