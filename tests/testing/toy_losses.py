"""A loss that is right, and losses with one fault each."""

from __future__ import annotations

import os
import random

import attrs
import torch

from core_rl.numerics.segments import broadcast, segment_mean
from core_rl.objective_extras import sums
from core_rl.roles.train import LossOutput

CALLS = []


@attrs.frozen(kw_only=True)
class Options:
    scale: float = attrs.field(default=1.0, metadata={"help": "of the loss"})


class Good:
    """-scale · A · ratio, with the ratio bounded."""

    __core_rl_config__ = Options

    def __init__(self, options):
        self.scale = options.scale

    def ratio(self, logprobs, batch):
        return (logprobs - batch["old_logprobs"]).clamp(-5, 5).exp()

    def __call__(self, logprobs, batch):
        values = -self.scale * batch["advantages"] * self.ratio(logprobs, batch)
        return LossOutput(values=values, metrics=sums({"ratio": self.ratio(logprobs, batch)}, batch.loss_mask))


class StopGradient(Good):
    """As CISPO: the ratio is a constant weight of the score function. Nothing is wrong with it."""

    def __call__(self, logprobs, batch):
        with torch.no_grad():
            weight = self.ratio(logprobs, batch).clamp(max=1.2)
        values = -weight * batch["advantages"] * logprobs + (logprobs - logprobs.detach())
        return LossOutput(values=values, metrics={})


class Averages(Good):
    def __call__(self, logprobs, batch):
        output = super().__call__(logprobs, batch)
        return attrs.evolve(output, values=output.values[batch.loss_mask].sum() / 10)


class AveragesOverTheBatch(Good):
    def __call__(self, logprobs, batch):
        output = super().__call__(logprobs, batch)
        return attrs.evolve(output, values=output.values - output.values.mean())


class Half(Good):
    def __call__(self, logprobs, batch):
        output = super().__call__(logprobs, batch)
        return attrs.evolve(output, values=output.values.double())


class LeaksMasked(Good):
    """A sequence's mean over all of its tokens."""

    def __call__(self, logprobs, batch):
        everything = torch.ones_like(batch.loss_mask)
        mean = segment_mean(logprobs, batch.cu_seqlens, everything)
        return LossOutput(values=broadcast(mean, batch.cu_seqlens, batch.num_tokens), metrics={})


class ByPlace(Good):
    """A weight that falls with the place in the batch."""

    def __call__(self, logprobs, batch):
        output = super().__call__(logprobs, batch)
        return attrs.evolve(output, values=output.values / (1 + torch.arange(batch.num_tokens)))


class MeanAsMetric(Good):
    def __call__(self, logprobs, batch):
        output = super().__call__(logprobs, batch)
        mean = output.values.detach()[batch.loss_mask].sum() / batch.loss_mask.sum().clamp(min=1)
        return attrs.evolve(output, metrics={"loss": (mean, torch.tensor(1.0))})


class NumberAsMetric(Good):
    def __call__(self, logprobs, batch):
        return attrs.evolve(super().__call__(logprobs, batch), metrics={"loss": 0.5})


class Writes(Good):
    def __call__(self, logprobs, batch):
        batch["advantages"].mul_(0.5)
        return super().__call__(logprobs, batch)


class SeedsTorch(Good):
    def __call__(self, logprobs, batch):
        torch.manual_seed(0)
        return super().__call__(logprobs, batch)


class Drops(Good):
    """Draws from the global random state."""

    def __call__(self, logprobs, batch):
        output = super().__call__(logprobs, batch)
        return attrs.evolve(output, values=output.values * (torch.rand(batch.num_tokens) > 0.2))


class SetsTheEnvironment(Good):
    def __init__(self, options):
        super().__init__(options)
        os.environ["TOY_LOSS"] = str(random.random())


class ReadsUndeclared(Good):
    def __call__(self, logprobs, batch):
        output = super().__call__(logprobs, batch)
        return attrs.evolve(output, values=output.values + batch["ref_logprobs"])


class Declares(ReadsUndeclared):
    """What it reads. Nothing is wrong with it."""

    needs = frozenset({"ref_logprobs"})


class Overflows(Good):
    def ratio(self, logprobs, batch):
        return (logprobs - batch["old_logprobs"]).exp()


class NoGradient(Good):
    def __call__(self, logprobs, batch):
        return super().__call__(logprobs.detach(), batch)


class _Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.exp()

    @staticmethod
    def backward(ctx, grad):
        return 0.5 * grad


class WrongGradient(Good):
    def ratio(self, logprobs, batch):
        return _Wrong.apply((logprobs - batch["old_logprobs"]).clamp(-5, 5))


class Remembers(Good):
    """The second call of an object is not its first."""

    def __init__(self, options):
        super().__init__(options)
        self.calls = 0

    def __call__(self, logprobs, batch):
        self.calls += 1
        output = super().__call__(logprobs, batch)
        return attrs.evolve(output, values=output.values * self.calls)


class DoesNotPickle(Good):
    def __init__(self, options):
        super().__init__(options)
        self.scale_of = lambda: options.scale


class TakesOneArgument(Good):
    def __call__(self, logprobs):
        return LossOutput(values=logprobs, metrics={})


class BadUnit(Good):
    unit = "row"


@attrs.define(kw_only=True)
class Thawed:
    scale: float = attrs.field(default=1.0)


class ThawedOptions(Good):
    __core_rl_config__ = Thawed


class UnknownCapability(Good):
    needs = frozenset({"ref_logprob"})


class Zero(Good):
    """No gradient but 0."""

    def __call__(self, logprobs, batch):
        return LossOutput(values=0 * logprobs, metrics={})
