"""Engines that are wrong in one way each. `fails` is the one check of the suite that says so, on `ranks` ranks."""

from __future__ import annotations

import attrs
import torch
import torch.distributed as dist
from toy_train_engine import ToyTrainEngine

from core_rl.numerics.segments import segment_count


class Fault(ToyTrainEngine):
    fails: str
    ranks = 1


class OffByOneToken(Fault):
    """Log-probabilities stand at the token before."""

    fails = "forward_pass"

    def forward(self, batch, *args, **kwargs):
        found = super().forward(batch, *args, **kwargs)
        return {name: value.roll(-1, 0) for name, value in found.items()}


class LeavesTheLastOut(Fault):
    """The last sequence is not scored."""

    fails = "forward_pass"

    def forward(self, batch, *args, **kwargs):
        found = super().forward(batch, *args, **kwargs)
        for value in found.values():
            value[batch.token_indices([batch.num_sequences - 1])] = 0
        return found


class FillsTheMask(Fault):
    """Something stands outside the mask."""

    fails = "form_of_outputs"

    def forward(self, batch, *args, **kwargs):
        found = super().forward(batch, *args, **kwargs)
        return {name: value.where(batch.loss_mask, -1e-6) if value.ndim == 1 else value for name, value in found.items()}


class DoublePrecision(Fault):
    """float64 in place of float32."""

    fails = "form_of_outputs"

    def forward(self, *args, **kwargs):
        found = super().forward(*args, **kwargs)
        return {
            name: value.double() if value.is_floating_point() and name != "topk_logprobs" else value
            for name, value in found.items()
        }


class ForgetsTheTemperature(Fault):
    fails = "temperature"

    def setup(self):
        super().setup()
        self._policy.temperature = 1.0


class ForgetsTheTemperatureInTraining(Fault):
    fails = "temperature"

    def train_step(self, *args):
        temperature, self._policy.temperature = self._policy.temperature, 1.0
        report = super().train_step(*args)
        self._policy.temperature = temperature
        return report


class OtherTeacher(Fault):
    """A frozen model is not the model."""

    fails = "frozen_model"

    def setup(self):
        super().setup()
        if self.context.frozen:
            self.module.model.norm.weight.data *= 1.1


class WorstFirst(Fault):
    """Of the k likeliest tokens, the least likely first."""

    fails = "top_k"

    def forward(self, *args, **kwargs):
        found = super().forward(*args, **kwargs)
        return {name: value.flip(-1) if name.startswith("topk") else value for name, value in found.items()}


class OtherIds(Fault):
    """Right log-probabilities of the likeliest tokens under wrong ids."""

    fails = "top_k"

    def forward(self, *args, **kwargs):
        found = super().forward(*args, **kwargs)
        return {name: value + 1 if name == "topk_ids" else value for name, value in found.items()}


class GathersThePlaceBefore(Fault):
    fails = "gathered_tokens"

    def forward(self, *args, **kwargs):
        found = super().forward(*args, **kwargs)
        return {name: value.roll(-1, 0) if name == "gathered_logprobs" else value for name, value in found.items()}


class TensorsInItsDescription(Fault):
    fails = "description"

    def describe(self):
        return {**super().describe(), "norm": torch.ones(())}


class PrefixesNames(Fault):
    """Names of a wrapped module."""

    fails = "export"

    def export_weights(self):
        for name, tensor in super().export_weights():
            yield f"module.{name}", tensor


class ExportsTiedWeightsTwice(Fault):
    fails = "export"

    def export_weights(self):
        yield from super().export_weights()
        yield "lm_head.weight", self.module.lm_head.weight


class IgnoresNormsOfTheFolder(Fault):
    """Of a pretrained model, vectors stay as they were made."""

    fails = "pretrained_model"

    def setup(self):
        super().setup()
        if self.context.model.path is not None:
            for parameter in self.module.parameters():
                if parameter.ndim == 1:
                    parameter.data.fill_(1.0)


class AveragesOverRanks(Fault):
    """As DistributedDataParallel does; denominators are global here."""

    fails, ranks = "step", 2

    def sum_gradients(self):
        super().sum_gradients()
        for grad in self.gradients():
            grad.div_(self.place.world_size)


class TrainsWithoutTheLast(Fault):
    """The last sequence is dropped, as a loader with `drop_last` would."""

    fails = "step"

    def train_step(self, batch, objective, aggregation):
        if batch.num_sequences > 1:
            batch = batch.select(range(batch.num_sequences - 1))
        return super().train_step(batch, objective, aggregation)


class AveragesMetrics(Fault):
    """The mean over ranks of each rank's mean, in place of total sum over total count."""

    fails, ranks = "step", 2

    def _step(self, totals, lr, **counts):
        return attrs.evolve(super()._step(totals, lr, **counts), metrics=self.means)

    def sum_gradients(self):
        super().sum_gradients()
        parts = [None] * self.place.world_size
        dist.all_gather_object(parts, self.totals.metrics())
        self.means = {
            name: max(part[name] for part in parts) if name.endswith("_max") else sum(part[name] for part in parts) / len(parts)
            for name in parts[0]
        }


class DecaysNorms(Fault):
    """Weight decay on vectors too."""

    fails = "step"

    def setup(self):
        super().setup()
        if not self.context.frozen:
            for group in self._optimizer.param_groups:
                group["weight_decay"] = self.options.weight_decay


class AddsUpOverSteps(Fault):
    """Gradients of the step before are still there."""

    fails = "further_steps"

    def sum_gradients(self):
        super().sum_gradients()
        before = getattr(self, "before", None)
        self.before = [grad.clone() for grad in self.gradients()]
        for grad, old in zip(self.gradients(), before or [], strict=bool(before)):
            grad.add_(old)


class ClipsEachTensor(Fault):
    """The norm of each tensor decides over its own gradient."""

    fails = "clipping"

    def _step(self, totals, lr, **counts):
        limit = self.options.max_grad_norm
        for grad in self.gradients() if limit else []:
            grad.mul_(min(1.0, limit / float(grad.norm())))
        return super()._step(totals, lr, **counts)


class ReportsTheClippedNorm(Fault):
    fails = "clipping"

    def _step(self, totals, lr, **counts):
        report = super()._step(totals, lr, **counts)
        return attrs.evolve(report, grad_norm=min(report.grad_norm, self.options.max_grad_norm or report.grad_norm))


class EntropyWithoutGradient(Fault):
    fails = "entropy_gradient"

    def compute(self, batch, part, plan, weights, objective):
        super().compute(batch, part, plan, weights, _Detached(objective, "entropy"))


class GatheredWithoutGradient(Fault):
    fails = "gathered_gradient"

    def compute(self, batch, part, plan, weights, objective):
        super().compute(batch, part, plan, weights, _Detached(objective, "gathered"))


class _Detached:
    """An objective that gets one output without its gradient."""

    def __init__(self, objective, name):
        self.objective, self.name = objective, name
        self.entropy_grad, self.unit = objective.entropy_grad, objective.unit

    def __call__(self, outputs, batch):
        value = getattr(outputs, self.name)
        return self.objective(attrs.evolve(outputs, **{self.name: value if value is None else value.detach()}), batch)


class WeighsDirectTerms(Fault):
    """A term with its own weights is weighted again."""

    fails = "direct_term"

    def scalar(self, loss, weight):
        return super().scalar(loss if loss.direct is None else attrs.evolve(loss, direct=loss.direct * weight), weight)


class AveragesOverMicroBatches(Fault):
    """As gradient accumulation in most trainers does."""

    fails = "micro_batches"

    def compute(self, batch, part, plan, weights, objective):
        count = len(plan.of_ranks(batch, self.place.world_size)[self.place.rank])
        super().compute(batch, part, plan, weights / count, objective)


class IgnoresTheBudget(Fault):
    """Everything at once, whatever fits."""

    fails = "micro_batches"

    def setup(self):
        super().setup()
        self.options = attrs.evolve(self.options, max_tokens_per_micro_batch=4096)


class CutsGroups(Fault):
    """Takes an objective of groups for one of sequences."""

    fails = "whole_groups"

    def _plan(self, batch, unit="sequence"):
        del unit
        return super()._plan(batch)


class SkipsBatchesBelowTheRanks(Fault):
    """A batch with fewer sequences than ranks is taken for an empty one."""

    fails, ranks = "fewer_sequences_than_ranks", 2

    def train_step(self, batch, objective, aggregation):
        if batch.num_sequences < self.place.world_size:
            return self.nothing(0.0)
        return super().train_step(batch, objective, aggregation)


class CountsMaskedSequences(Fault):
    """The loss is scaled by the sequences of the batch, not by those with something in the mask."""

    fails = "masked_sequence"

    def compute(self, batch, part, plan, weights, objective):
        scored = (segment_count(batch.loss_mask, batch.cu_seqlens) > 0).float().mean()
        super().compute(batch, part, plan, weights * scored, objective)


class StepsOnNothing(Fault):
    """Momentum and decay move the weights on an empty batch."""

    fails = "empty_mask"

    def nothing(self, lr):
        self._masters.zero_grad()
        for master in self._masters.masters.values():
            master.grad = torch.zeros_like(master)
        self._masters.slots_with_grads()
        self._optimizer.step()
        return super().nothing(lr)


class AdvancesTheScheduleOnNothing(Fault):
    fails = "empty_mask"

    def nothing(self, lr):
        self.steps += 1
        return super().nothing(lr)


class StepsOnNaN(Fault):
    """A loss that is not a number counts as 0 where it is found."""

    fails = "nan_loss"

    def sum_gradients(self):
        for grad in self.gradients():
            grad.nan_to_num_(0.0)
        self.totals.loss.nan_to_num_(0.0)
        super().sum_gradients()


class SpoilsTheOptimizer(Fault):
    """A step that is skipped leaves the weights, and not the momentum."""

    fails = "nan_loss"

    def _step(self, totals, lr, **counts):
        report = super()._step(totals, lr, **counts)
        if report.skipped:
            for state in self._optimizer.state.values():
                state["exp_avg"].fill_(0.0)
        return report


class OwnMetricsOnEachRank(Fault):
    """The first rank has those of all, each other its own."""

    fails, ranks = "same_on_every_rank", 2

    def sum_gradients(self):
        super().sum_gradients()
        self.own = self.totals.metrics()

    def _step(self, totals, lr, **counts):
        report = super()._step(totals, lr, **counts)
        return report if self.place.rank == 0 else attrs.evolve(report, metrics=self.own)


class OwnOutputsOnEachRank(Fault):
    """The first rank has all log-probabilities, each other its share."""

    fails, ranks = "same_on_every_rank", 2

    def forward(self, batch, *args, **kwargs):
        found = super().forward(batch, *args, **kwargs)
        if self.place.rank:
            for value in found.values():
                value[: batch.num_tokens // 2] = 0
        return found


class LoadsWithoutTheOptimizer(Fault):
    fails = "resume"

    def load(self, path):
        super().load(path)
        self._optimizer.state.clear()


class LoadsWithoutTheSchedule(Fault):
    fails = "resume"

    def load(self, path):
        super().load(path)
        self.steps = 0


class SavingDisturbs(Fault):
    """What is saved is right; the engine that saved goes on with another state."""

    fails = "resume"

    def save(self, path):
        super().save(path)
        for state in self._optimizer.state.values():
            state["exp_avg"] *= 0.5


class LoadsHalfTheStateOnOtherRanks(Fault):
    """A checkpoint of another number of ranks is read, without the momentum."""

    fails, ranks = "resume_on_other_ranks", 2

    def save(self, path):
        super().save(path)
        if self.place.rank == 0:
            (path / "ranks").write_text(str(self.place.world_size))
        dist.barrier()

    def load(self, path):
        super().load(path)
        if int((path / "ranks").read_text()) != self.place.world_size:
            for state in self._optimizer.state.values():
                state["exp_avg"].zero_()


class SavesTheFirstWeights(Fault):
    """The folder has the weights that training began with."""

    fails = "save_hf"

    def setup(self):
        super().setup()
        self.first = {name: tensor.clone() for name, tensor in self.export_weights()}

    def save_hf(self, path):
        self.module.save_pretrained(path, state_dict={name: value.contiguous() for name, value in self.first.items()})
        from core_rl.hf.tokenizer import load_tokenizer

        load_tokenizer(self.context.model).save_pretrained(str(path))


class SavesNoTokenizer(Fault):
    fails = "save_hf"

    def save_hf(self, path):
        self.module.save_pretrained(path, state_dict={name: value.contiguous() for name, value in self.export_weights()})


class ReferenceFollows(Fault):
    """The reference policy is the current one."""

    fails = "reference"

    def forward(self, batch, outputs=("logprobs",), *, weights="current", top_k=None):
        del weights
        return super().forward(batch, outputs, top_k=top_k)


class NeverResetsTheReference(Fault):
    fails = "reference"

    def reset_reference(self):
        if self._reference is None:
            super().reset_reference()


class SavesNoReference(Fault):
    fails = "resume_with_reference"

    def save(self, path):
        self._reference_moved = False
        super().save(path)


class LosesMomentsOffTheDevice(Fault):
    fails = "offload"

    def offload(self):
        super().offload()
        for state in self._optimizer.state.values():
            state["exp_avg"].zero_()


class ValuesOfTheTokenItself(Fault):
    """Values stand one place early."""

    fails = "value_head"

    def forward(self, batch, *args, **kwargs):
        found = super().forward(batch, *args, **kwargs)
        if self.context.heads == "value":
            found["values"] = found["values"].roll(-1, 0)
        return found


class TrunkWithoutValueGradient(Fault):
    """The shared head learns, and the trunk hears nothing of it."""

    fails = "shared_value_head"

    def compute(self, batch, part, plan, weights, objective):
        if self.context.heads == "both":
            objective = _Detached(objective, "values")
        super().compute(batch, part, plan, weights, objective)


class LosesTheHead(Fault):
    """A head beside the output layer is not in the checkpoint."""

    fails = "resume_with_values"

    def load(self, path):
        super().load(path)
        if self.context.heads == "both":
            self._policy.value_weight.data.zero_()
