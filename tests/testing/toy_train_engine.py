"""A right train engine on several ranks, small enough to be wrong in one way at a time: the local engine, data parallel.

Every rank has the whole model, computes its share of the sequences, and adds up gradients and totals with the others.
"""

from __future__ import annotations

import torch.distributed as dist

from core_rl.roles.train import StepReport
from core_rl.train.micro_batches import scalar_loss
from core_rl.train.schedule import learning_rate
from core_rl.train.totals import Totals
from core_rl.workers.process_group import join
from core_rl_local.config import LocalTrainConfig
from core_rl_local.train import LocalTrainEngine

PROVIDES = frozenset(
    {
        "old_logprobs",
        "ref_logprobs",
        "entropy",
        "entropy_grad",
        "gathered_logprobs",
        "topk_logprobs",
        "values",
        "distributed",
    }
)


class ToyTrainEngine(LocalTrainEngine):
    __core_rl_config__ = LocalTrainConfig
    provides = PROVIDES

    def setup(self):
        self.place = join("cpu").ranks
        super().setup()

    def train_step(self, batch, objective, aggregation):
        lr = learning_rate(self.options, self.steps, self.context.total_steps)
        weights = aggregation.weights(batch)
        plan = self._plan(batch, objective.unit)
        parts = plan.of_ranks(batch, self.place.world_size)[self.place.rank]
        if not parts:
            return self.nothing(lr)
        self._masters.zero_grad()
        self.totals = Totals()
        with self._training():
            for part in parts:
                self.compute(batch, part, plan, weights, objective)
        self.sum_gradients()
        self.totals.gather()
        count = batch.num_tokens
        return self._step(self.totals, lr, num_tokens=count, num_micro_batches=len(parts))

    def nothing(self, lr):
        return StepReport(loss=0.0, grad_norm=0.0, lr=lr, num_tokens=0, num_micro_batches=0)

    def compute(self, batch, part, plan, weights, objective):
        """Forward and backward of a micro-batch."""
        own = batch.select(part.sequences)
        prefixes = [plan.prefixes[s] for s in part.sequences]
        entropy_grad = objective.entropy_grad
        outputs = self._policy.outputs(own, prefixes, entropy_grad=entropy_grad, sink=self._masters.sink)
        loss = objective(outputs, own)
        weight = weights[batch.token_indices(part.sequences)]
        value = self.scalar(loss, weight) if part.counts else 0.0 * scalar_loss(loss, weight)
        value.backward()
        if part.counts:
            self.totals.add(value.detach(), loss)

    def scalar(self, loss, weight):
        return scalar_loss(loss, weight)

    def gradients(self):
        return [master.grad for master in self._masters.masters.values() if master.grad is not None]

    def sum_gradients(self):
        for grad in self.gradients():
            dist.all_reduce(grad)

    def save(self, path):
        if self.place.rank == 0:
            super().save(path)
        dist.barrier()

    def save_hf(self, path):
        if self.place.rank == 0:
            super().save_hf(path)
        dist.barrier()
