"""The train engine `deepspeed`: any causal language model of transformers, by DeepSpeed's ZeRO.

What is computed is `core_rl.hf.packed`'s, inside one module whose hooks gather the weights (`core_rl.hf.packed.module`). Every rank has the
whole batch and takes its part of it (`core_rl.train.micro_batches`). DeepSpeed averages gradients over ranks; denominators are those of
the whole batch already, so that every loss is multiplied by the number of ranks and the average is a sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from core_rl.errors import UserError
from core_rl.hf.packed.module import as_outputs, as_tensors
from core_rl.train.memory import explain_out_of_memory
from core_rl.train.micro_batches import MicroBatch, Plan, scalar_loss
from core_rl.train.refusals import no_reference, refuse_float16
from core_rl.train.results import FIELDS, room_for
from core_rl.train.schedule import learning_rate
from core_rl.train.totals import Totals
from core_rl.workers.process_group import join
from core_rl_deepspeed import _checkpoint
from core_rl_deepspeed._backend import require_deepspeed
from core_rl_deepspeed._export import save_folder
from core_rl_deepspeed._launch import launch, settings_of
from core_rl_deepspeed._linear import in_place
from core_rl_deepspeed._model import build_model
from core_rl_deepspeed._reference import Reference
from core_rl_deepspeed._shards import state_keys
from core_rl_deepspeed._storages import Storages
from core_rl_deepspeed._weights import named_whole

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.hf.packed.policy import Outputs
    from core_rl.roles.train import Aggregation, Objective, StepReport, TokenOutput, TrainContext, Unit, Weights
    from core_rl_deepspeed.config import DeepSpeedConfig


class DeepSpeedTrainEngine:
    """A `core_rl.roles.train.TrainEngine` on every rank."""

    device: torch.device

    def __init__(self, options: DeepSpeedConfig, context: TrainContext) -> None:
        self.options = options
        self.context = context
        self.steps = 0
        self._reference: Reference | None = None
        self._away: Storages | None = None

    def setup(self) -> None:
        refuse_float16(self.context.model, engine="deepspeed")
        member = join(self.options.device)
        self.device, self.rank, self.world_size = member.device, member.ranks.rank, member.world_size
        require_deepspeed(self.device)
        settings = settings_of(self.options, self.context)
        self._built = build_model(self.options, self.context)
        self._policy = self._built.policy
        self._params = self._built.trainable()
        self._launched = launch(self._built, self.options, settings, self.device)
        self._inside, self._engine, self._shards = self._launched.inside, self._launched.engine, self._launched.shards
        self._inside.eval()
        if self.context.reference and not self.context.frozen:
            self._reference = Reference(self._shards, self._params)

    @property
    def module(self) -> Any:
        """The transformers model, whose weights may be shards. None but this engine computes with it."""
        return self._built.model

    def forward(
        self,
        batch: PackedBatch,
        outputs: Sequence[TokenOutput] = ("logprobs",),
        *,
        weights: Weights = "current",
        top_k: int | None = None,
    ) -> dict[str, torch.Tensor]:
        results = room_for(batch, outputs, heads=self.context.heads, top_k=top_k, vocabulary=self._built.vocabulary)
        plan = self._plan(batch)
        with torch.no_grad(), self._weights(weights), self._computing():
            for micro in plan.of_ranks(batch, self.world_size)[self.rank]:
                found = self._outputs(self._inside, batch, plan, micro, top_k=top_k or 0)
                where = batch.token_indices(micro.sequences)
                for name, result in results.items():
                    if micro.counts:
                        result[where] = getattr(found, FIELDS.get(name, name)).cpu()
        return {name: self._summed(result) for name, result in results.items()}

    def train_step(self, batch: PackedBatch, objective: Objective, aggregation: Aggregation) -> StepReport:
        lr = learning_rate(self.options, self.steps, self.context.total_steps)
        weights = aggregation.weights(batch)
        plan = self._plan(batch, getattr(objective, "unit", "sequence"))
        parts = plan.of_ranks(batch, self.world_size)[self.rank]
        if not parts:  # nothing to learn from: momentum alone must not move the weights
            return Totals().report(lr=lr)
        totals = Totals()
        self._inside.train()
        try:
            with self._computing():
                for micro in parts:
                    self._engine.set_gradient_accumulation_boundary(micro is parts[-1])
                    self._backward(batch, plan, micro, objective=objective, weights=weights, totals=totals)
                norm, taken = self._shards.step(lr)
        finally:
            self._inside.eval()
        totals.gather()
        self.steps += taken
        return totals.report(
            lr=lr, grad_norm=norm, num_tokens=batch.num_tokens, num_micro_batches=len(parts), skipped=not taken
        )

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
        outputs = self._outputs(self._engine, batch, plan, micro, entropy_grad=objective.entropy_grad)
        loss = objective(outputs, part.to(self.device))
        value = scalar_loss(loss, weights[batch.token_indices(micro.sequences)].to(self.device))
        if micro.counts:
            totals.add(value.detach(), loss)
            # a loss that is not finite may have a finite gradient: then the gradient must say it, on whichever rank
            value = value * torch.where(value.detach().isfinite(), 1.0, torch.nan)
        else:  # in step with the other ranks, over the same weights
            value = value * 0.0
        self._engine.backward(value * self.world_size, scale_wrt_gas=False)

    def reset_reference(self) -> None:
        if self._reference is None:
            self._reference = Reference(self._shards, self._params)
        self._reference.reset()

    def export_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        yield from named_whole(self.module, self._shards)

    def save(self, path: Path) -> None:
        keys = state_keys(self.options) if self.steps else ()
        masters = ((name, self._shards.master(param)) for name, param in self._params.items())
        states = ((f"{n}|{key}", self._shards.state(p, key)) for n, p in self._params.items() for key in keys)
        _checkpoint.write(masters, path, _checkpoint.WEIGHTS)
        _checkpoint.write(states, path, _checkpoint.OPTIMIZER)
        if self._reference is not None and self._reference.moved:
            with self._reference.in_place():
                _checkpoint.write(self._trainable_weights(), path, _checkpoint.REFERENCE)
        _checkpoint.write_state(self.steps, path)

    def _trainable_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        for name, param in self._params.items():
            with self._shards.whole([param]):
                yield name, param.detach().clone()

    def load(self, path: Path) -> None:
        shapes = self._built.shapes
        for name, value in _checkpoint.read(path, _checkpoint.WEIGHTS, shapes.items()):
            self._shards.set_master(self._params[name], value.to(self.device))
        self._shards.publish()
        if self._reference is not None and _checkpoint.has(path, _checkpoint.REFERENCE):
            for name, value in _checkpoint.read(path, _checkpoint.REFERENCE, shapes.items()):
                self._reference.load(name, value)
        self.steps = _checkpoint.read_state(path)
        if self.steps == 0:
            return
        self._shards.begin_state(self.steps)
        expected = {f"{name}|{key}": shape for name, shape in shapes.items() for key in state_keys(self.options)}
        for label, value in _checkpoint.read(path, _checkpoint.OPTIMIZER, expected.items()):
            name, _, key = label.rpartition("|")
            self._shards.set_state(self._params[name], key, value.to(self.device))

    def save_hf(self, path: Path) -> None:
        save_folder(self._built, self._shards, self.context.model, path)

    def offload(self) -> None:
        if self.device.type == "cpu" or self._away is not None:
            return
        self._shards.settle()
        self._away = Storages(self._on_device())
        self._away.empty()
        torch.cuda.empty_cache()

    def onload(self) -> None:
        if self._away is not None:
            self._away.fill()
            self._away = None

    def _on_device(self) -> Iterator[torch.Tensor]:
        tensors = [*self._inside.parameters(), *self._shards.tensors()]
        yield from (tensor for tensor in tensors if tensor.device.type == self.device.type)

    def close(self) -> None:
        """Also when `setup` failed or never ran. The process group is the process's own, and other engines may use it."""
        self._reference = self._away = None
        if hasattr(self, "_launched") and self._engine is not None:
            self._engine.destroy()
            self._engine = None

    def describe(self) -> Mapping[str, Any]:
        return {
            "model_type": self.module.config.model_type,
            "parameters": self._built.parameters,
            "trainable_parameters": self._built.trainable_parameters,
            "heads": self.context.heads,
            "device": str(self.device),
            "dtype": self.context.model.dtype,
            "packed": self._policy.packed,
            "prefix_sharing": self._shares,
            "zero_stage": self.options.zero_stage,
            "data_parallel": self.world_size,
            "optimizer": self.options.optimizer,
        }

    @property
    def _shares(self) -> bool:
        return self.options.prefix_sharing and self._policy.packed

    def _plan(self, batch: PackedBatch, unit: Unit = "sequence") -> Plan:
        budget = self.options.max_tokens_per_micro_batch
        if self.options.zero_stage == 3 and not self._policy.packed and self.world_size > 1:
            budget = 1  # each call of the model gathers its weights on all ranks: one sequence, one call, one micro-batch
            if unit == "group":
                message = (
                    f"train_engine.zero_stage: {self.module.config.model_type} cannot be packed, and with zero_stage 3 on several ranks "
                    "no loss of whole groups can be computed of it: take zero_stage 2"
                )
                raise UserError(message)
        return Plan.of(batch, budget, unit=unit, share_prefixes=self._shares)

    def _outputs(
        self,
        module: Any,
        batch: PackedBatch,
        plan: Plan,
        micro: MicroBatch,
        *,
        entropy_grad: bool = False,
        top_k: int = 0,
    ) -> Outputs:
        """`module` is DeepSpeed's engine where a backward pass follows."""
        assert self._away is None, "weights that are away are read as freed memory"
        part, prefixes = batch.select(micro.sequences), [plan.prefixes[s] for s in micro.sequences]

        def compute() -> dict[str, torch.Tensor]:
            return as_tensors(self._policy.outputs(part, prefixes, entropy_grad=entropy_grad, top_k=top_k))

        return as_outputs(module(compute))

    def _summed(self, tensor: torch.Tensor) -> torch.Tensor:
        """Over ranks, of which each has filled its own part."""
        there = tensor.to(self.device)
        dist.all_reduce(there)
        return there.cpu()

    def _weights(self, weights: Weights) -> AbstractContextManager[None]:
        if weights == "current":
            return nullcontext()
        if self._reference is None:
            raise no_reference()
        return self._reference.in_place()

    @contextmanager
    def _computing(self) -> Iterator[None]:
        memory = explain_out_of_memory(tokens=self.options.max_tokens_per_micro_batch)
        with self._policy.attention(), in_place(self._launched.linear), memory:
            yield
