"""The train engine `fsdp`: any causal language model of transformers, in float32 shards on every rank (torch FSDP2).

What is computed is `core_rl.hf.packed`'s, inside one module whose hooks gather the weights (`core_rl.hf.packed.module`). Every rank has the
whole batch and takes its part of it (`core_rl.train.micro_batches`); gradients are summed over ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from core_rl.errors import UserError
from core_rl.hf.packed.build import bare_model, dress
from core_rl.hf.packed.choice import choose
from core_rl.hf.packed.module import NAME, as_outputs, as_tensors
from core_rl.hf.packed.policy import Policy
from core_rl.hf.packed.probe import probe
from core_rl.hf.packed.values import value_weight
from core_rl.train.memory import explain_out_of_memory
from core_rl.train.micro_batches import MicroBatch, Plan, scalar_loss
from core_rl.train.optimizer import build_optimizer
from core_rl.train.refusals import no_reference, refuse_float16
from core_rl.train.results import FIELDS, room_for
from core_rl.train.schedule import learning_rate
from core_rl.train.totals import Totals
from core_rl.workers.process_group import join
from core_rl_fsdp import _checkpoint, _tensor_parallel
from core_rl_fsdp._export import save_folder
from core_rl_fsdp._gradients import clip, total_norm
from core_rl_fsdp._places import Places
from core_rl_fsdp._shards import build_on_rank_0, compile_layers, local, named_whole, reshard, shard, tensors_of_rank_0

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.hf.packed.policy import Outputs
    from core_rl.hf.spec import ModelSpec
    from core_rl.roles.train import Aggregation, Objective, StepReport, TokenOutput, TrainContext, Unit, Weights
    from core_rl_fsdp.config import FsdpConfig


class FsdpTrainEngine:
    """A `core_rl.roles.train.TrainEngine` on every rank."""

    device: torch.device

    def __init__(self, options: FsdpConfig, context: TrainContext) -> None:
        self.options = options
        self.context = context
        self.steps = 0
        self._reference: dict[str, torch.Tensor] | None = None
        self._reference_moved = False

    def setup(self) -> None:
        spec = self.context.model
        refuse_float16(spec, engine="fsdp")
        member = join(self.options.device)
        self.device, self.rank = member.device, member.ranks.rank
        self._places = Places.of(self.options, member)
        model = build_on_rank_0(self._build, spec)
        whole = tensors_of_rank_0(model)
        if self.options.tensor_parallel > 1:
            if self.options.lora is not None:
                message = "train_engine.lora: adapters are not cut; set tensor_parallel: 1, and ulysses for long sequences"
                raise UserError(message)
            _tensor_parallel.check(model, self.options.tensor_parallel)
            _tensor_parallel.cut(model, self._places.tensor)
        choose(model, self.options.attention, self.device)
        if self.options.compile:
            compile_layers(model, self.options.wrap)
        self._inside = shard(model, whole, spec=spec, options=self.options, mesh=self._places.shards, device=self.device)
        self._policy = self._make_policy(model)
        reshard(self._inside)
        self._policy.temperature = self.context.temperature
        self._policy.ulysses = self._places.ulysses_of(self._policy)
        if self.context.frozen:
            self._inside.requires_grad_(False)
            return
        self._params = {name: p for name, p in self.module.named_parameters() if p.requires_grad}
        self._partial = _tensor_parallel.partial_weights(model) if self.options.tensor_parallel > 1 else []
        # the optimizer sees plain tensors, this rank's parts: torch has no DTensor form of every fused kernel
        self._slots = {name: local(p).detach().requires_grad_() for name, p in self._params.items()}
        self._optimizer = build_optimizer(self.options, list(self._slots.values()))
        if self.context.reference:
            self.reset_reference()
            self._reference_moved = False

    def _make_policy(self, model: Any) -> Policy:
        budget = self.options.logits_memory_mb
        if self.options.tensor_parallel == 1:
            found: Policy = self._compute(lambda: probe(model, logits_memory_mb=budget, attention=self.options.attention))
            return found
        policy = Policy(
            model, logits_memory_mb=budget, attention=self.options.attention
        )  # a model with a plan is one of attention that packs
        policy.vocabulary_group = self._places.tensor.get_group()
        return policy

    def _build(self, spec: ModelSpec) -> Any:
        """The model as it will be sharded: with adapters and heads, its weights float32."""
        model = bare_model(self.context, spec)
        dress(model, self.context, self.options)
        return model

    @property
    def module(self) -> Any:
        """The transformers model, whose weights are shards. None but this engine computes with it."""
        return getattr(self._inside, NAME)

    def forward(
        self,
        batch: PackedBatch,
        outputs: Sequence[TokenOutput] = ("logprobs",),
        *,
        weights: Weights = "current",
        top_k: int | None = None,
    ) -> dict[str, torch.Tensor]:
        output = self.module.get_output_embeddings()
        vocabulary = 0 if output is None else output.weight.shape[0]  # the whole one, also of a table in parts
        results = room_for(batch, outputs, heads=self.context.heads, top_k=top_k, vocabulary=vocabulary)
        plan = self._plan(batch)
        with torch.no_grad(), self._weights(weights), self._policy.attention(), self._memory():
            for micro in self._places.own(plan, batch):
                found = self._outputs(batch, plan, micro, top_k=top_k or 0)
                where = batch.token_indices(micro.sequences)
                for name, result in results.items():
                    if micro.counts and self._places.speaks:
                        result[where] = getattr(found, FIELDS.get(name, name)).cpu()
        reshard(self._inside)
        for name, result in results.items():
            results[name] = self._summed(result)
        return results

    def train_step(self, batch: PackedBatch, objective: Objective, aggregation: Aggregation) -> StepReport:
        lr = learning_rate(self.options, self.steps, self.context.total_steps)
        weights = aggregation.weights(batch)
        plan = self._plan(batch, getattr(objective, "unit", "sequence"))
        parts = self._places.own(plan, batch)
        if not parts:  # nothing to learn from: momentum alone must not move the weights
            return Totals().report(lr=lr)
        totals = Totals()
        self._zero_grad()
        self.module.train()
        try:
            with self._policy.attention(), self._memory():
                for micro in parts:
                    self._backward(batch, plan, micro, objective=objective, weights=weights, totals=totals)
        finally:
            self.module.eval()
        totals.gather(self._places.data_group)
        return self._step(totals, lr, num_tokens=batch.num_tokens, num_micro_batches=len(parts))

    def _backward(
        self,
        batch: PackedBatch,
        plan: Plan,
        micro: MicroBatch,
        *,
        objective: Objective,
        weights: torch.Tensor,
        totals: Totals,
    ) -> None:
        part = batch.select(micro.sequences)
        outputs = self._outputs(batch, plan, micro, entropy_grad=objective.entropy_grad)
        if micro.counts:
            loss = objective(outputs, part.to(self.device))
            value = scalar_loss(loss, weights[batch.token_indices(micro.sequences)].to(self.device))
            totals.add(value.detach(), loss)
        else:
            value = torch.zeros((), device=self.device)
        # ranks stay in step: of every output a gradient of nothing, whatever the loss reads
        value = sum((t.flatten()[:0].sum() for t in as_tensors(outputs).values() if t.requires_grad), value)
        (value * self._places.shards.size()).backward()  # FSDP averages, and the denominators are global already

    def _step(self, totals: Totals, lr: float, *, num_tokens: int, num_micro_batches: int) -> StepReport:
        if self.options.tensor_parallel > 1:
            _tensor_parallel.add_up(self._partial, self._places.tensor.get_group())
        grads = [p.grad for p in self._params.values() if p.grad is not None]
        norm = total_norm(grads)
        skipped = not (torch.isfinite(totals.loss) and torch.isfinite(norm))
        if not skipped:
            clip(grads, norm, self.options.max_grad_norm)
            for group in self._optimizer.param_groups:
                group["lr"] = lr
            for name, p in self._params.items():
                self._slots[name].grad = None if p.grad is None else local(p.grad)
            self._optimizer.step()
            self.steps += 1
        self._zero_grad()
        return totals.report(
            lr=lr, grad_norm=float(norm), num_tokens=num_tokens, num_micro_batches=num_micro_batches, skipped=skipped
        )

    def _zero_grad(self) -> None:
        for tensor in (*self._params.values(), *self._slots.values()):
            tensor.grad = None

    def reset_reference(self) -> None:
        self._reference = {name: local(p).detach().to("cpu", copy=True) for name, p in self._params.items()}
        self._reference_moved = True

    def export_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        yield from named_whole(self._inside, self.device, getattr(torch, self.context.model.dtype))

    def save(self, path: Path) -> None:
        reference = self._reference if self._reference_moved else None
        _checkpoint.save(path, self._params, self._states(), steps=self.steps, reference=reference)

    def load(self, path: Path) -> None:
        found = _checkpoint.load(path, self._params, self._slots, self._optimizer, reference=self._reference)
        self.steps = found.steps
        self._reference_moved = self._reference_moved or found.reference

    def _states(self) -> dict[str, dict[str, torch.Tensor]]:
        """What the optimizer keeps of this rank's part of every weight."""
        return {name: self._optimizer.state[slot] for name, slot in self._slots.items() if slot in self._optimizer.state}

    def save_hf(self, path: Path) -> None:
        save_folder(self._inside, self.context.model, path, self.device)

    def offload(self) -> None:
        self._move(torch.device("cpu"))

    def onload(self) -> None:
        self._move(torch.device("cpu") if self.options.cpu_offload else self.device)

    def _move(self, device: torch.device) -> None:
        self._inside.to(device)
        if not self.context.frozen:
            for name, p in self._params.items():
                self._slots[name].data = local(p).detach()
            for values in self._optimizer.state.values():
                for name, value in values.items():
                    values[name] = value.to(device)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def close(self) -> None:
        """Also when `setup` failed or never ran. The process group is the process's own, and other engines may use it."""
        self._reference = None

    def describe(self) -> Mapping[str, Any]:
        parameters = list(self.module.parameters())
        return {
            "model_type": self.module.config.model_type,
            "parameters": sum(p.numel() for p in parameters),
            "trainable_parameters": sum(p.numel() for p in parameters if p.requires_grad),
            "heads": self.context.heads,
            "device": str(self.device),
            "dtype": self.context.model.dtype,
            "packed": self._policy.packed,
            "attention": self.options.attention,
            "prefix_sharing": self._shares,
            "data_parallel": self._places.data,
            "ulysses": self.options.ulysses,
            "tensor_parallel": self.options.tensor_parallel,
            "optimizer": self.options.optimizer,
        }

    def local_parameters(self) -> int:
        """How many numbers of the model this rank has."""
        return sum(local(p).numel() for p in self.module.parameters())

    @property
    def _shares(self) -> bool:
        return self.options.prefix_sharing and self._policy.shares

    def _plan(self, batch: PackedBatch, unit: Unit = "sequence") -> Plan:
        budget = self.options.max_tokens_per_micro_batch
        if not self._policy.packed and self._places.shards.size() > 1:
            budget = 1  # a sequence is a forward pass then, and ranks gather weights in step: one for each micro-batch
            if unit == "group":
                message = (
                    f"train_engine: fsdp: attention of {self.module.config.model_type} does not pack, and the loss wants whole "
                    "groups: set launcher.workers=1, or take another loss"
                )
                raise UserError(message)
        return Plan.of(batch, budget, unit=unit, share_prefixes=self._shares)

    def _compute(self, function: Callable[[], Any]) -> Any:
        """With every weight in place that the function reads."""
        return self._inside(function)

    def _outputs(
        self, batch: PackedBatch, plan: Plan, micro: MicroBatch, *, entropy_grad: bool = False, top_k: int = 0
    ) -> Outputs:
        part, prefixes = batch.select(micro.sequences), [plan.prefixes[s] for s in micro.sequences]
        policy: Policy = self._policy

        def compute() -> dict[str, torch.Tensor]:
            policy.value_weight = value_weight(self.module)
            return as_tensors(policy.outputs(part, prefixes, entropy_grad=entropy_grad, top_k=top_k))

        return as_outputs(self._compute(compute))

    def _summed(self, tensor: torch.Tensor) -> torch.Tensor:
        """Over ranks, of which each has filled its own part."""
        there = tensor.to(self.device)
        dist.all_reduce(there)
        return there.cpu()

    @contextmanager
    def _weights(self, weights: Weights) -> Iterator[None]:
        """With `reference`, the trainable shards are the reference's inside."""
        if weights == "current":
            yield
            return
        if self._reference is None:
            raise no_reference()
        shards = {name: local(p).detach() for name, p in self._params.items()}
        current = {name: own.clone() for name, own in shards.items()}
        try:
            for name, own in shards.items():
                own.copy_(self._reference[name])
            yield
        finally:
            for name, own in shards.items():
                own.copy_(current[name])

    def _memory(self) -> Any:
        return explain_out_of_memory(tokens=self.options.max_tokens_per_micro_batch)
