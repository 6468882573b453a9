"""The local train engine: any causal language model of transformers, trained in this process on the CPU or one CUDA device.

Padding-free; a group's prompt is computed once (`_layout`, `_attention`); logits in chunks (`_head`); float32 master weights
(`_masters`). The rollout engine samples from the same `module`. A critic or a reward model has values in place of logits, or beside
them (`_values`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from core_rl.errors import UserError
from core_rl.hf.packed.build import bare_model, cast_parameters, dress
from core_rl.hf.packed.probe import probe
from core_rl.hf.packed.values import save_value_head, value_weight
from core_rl.hf.packed.weights import column_major, named_weights
from core_rl.hf.tokenizer import load_tokenizer
from core_rl.train import checkpoint as _checkpoint
from core_rl.train.memory import explain_out_of_memory, keep_freed_memory
from core_rl.train.micro_batches import Plan, scalar_loss
from core_rl.train.optimizer import build_optimizer, clip, load_state, move_state, state_by_name
from core_rl.train.refusals import no_reference, refuse_float16
from core_rl.train.results import FIELDS, room_for
from core_rl.train.schedule import learning_rate
from core_rl.train.totals import Totals
from core_rl_local._masters import Masters

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.roles.train import Aggregation, Objective, StepReport, TokenOutput, TrainContext, Unit, Weights
    from core_rl_local.config import LocalTrainConfig


class LocalTrainEngine:
    """A `core_rl.roles.train.TrainEngine`. After `setup`, `module` is the model (with its adapters) on `device`."""

    module: Any
    device: torch.device

    def __init__(self, options: LocalTrainConfig, context: TrainContext) -> None:
        self.options = options
        self.context = context
        self.steps = 0
        self._reference: dict[str, torch.Tensor] | None = None
        self._reference_moved = False

    def setup(self) -> None:
        refuse_float16(self.context.model, engine="local")
        self.device = _device(self.options.device)
        if self.device.type == "cpu":
            keep_freed_memory()
        self.module = bare_model(self.context)
        self._policy = probe(self.module, logits_memory_mb=self.options.logits_memory_mb)
        self._policy.temperature = self.context.temperature
        cast_parameters(self.module, getattr(torch, self.context.model.dtype))
        if self._column:
            column_major(self.module)
        self._peft = dress(self.module, self.context, self.options)
        self.module.to(self.device)
        self._policy.value_weight = value_weight(self.module)
        if self.context.frozen:
            self.module.requires_grad_(False)
            self._masters = Masters(self.module, dense=[])
        else:
            self._set_up_optimizer()

    def _set_up_optimizer(self) -> None:
        embeddings = [self.module.get_input_embeddings(), self.module.get_output_embeddings()]
        self._masters = Masters(self.module, dense=[layer.weight for layer in embeddings if layer is not None])
        self._optimizer = build_optimizer(self.options, list(self._masters.slots.values()))
        if self.context.reference:
            self.reset_reference()
            self._reference_moved = False

    def forward(
        self,
        batch: PackedBatch,
        outputs: Sequence[TokenOutput] = ("logprobs",),
        *,
        weights: Weights = "current",
        top_k: int | None = None,
    ) -> dict[str, torch.Tensor]:
        output = self.module.get_output_embeddings()
        vocabulary = 0 if output is None else output.weight.shape[0]
        results = room_for(batch, outputs, heads=self.context.heads, top_k=top_k, vocabulary=vocabulary)
        plan = self._plan(batch)
        with torch.no_grad(), self._weights(weights), self._policy.attention(), self._memory():
            for sequences in plan.micro_batches(batch):
                found = self._policy.outputs(batch.select(sequences), [plan.prefixes[s] for s in sequences], top_k=top_k or 0)
                where = batch.token_indices(sequences)
                for name, result in results.items():
                    result[where] = getattr(found, FIELDS.get(name, name)).cpu()
        return results

    def train_step(self, batch: PackedBatch, objective: Objective, aggregation: Aggregation) -> StepReport:
        lr = learning_rate(self.options, self.steps, self.context.total_steps)
        weights = aggregation.weights(batch)
        plan = self._plan(batch, getattr(objective, "unit", "sequence"))
        parts = plan.micro_batches(batch)
        if not parts:  # nothing to learn from: momentum alone must not move the weights
            return Totals().report(lr=lr)
        totals = Totals()
        self._masters.zero_grad()
        with self._training(), self._memory():
            for sequences in parts:
                part = batch.select(sequences)
                outputs = self._policy.outputs(
                    part,
                    [plan.prefixes[s] for s in sequences],
                    entropy_grad=objective.entropy_grad,
                    sink=self._masters.sink,
                )
                loss = objective(outputs, part.to(self.device))
                value = scalar_loss(loss, weights[batch.token_indices(sequences)].to(self.device))
                value.backward()
                totals.add(value.detach(), loss)
        return self._step(totals, lr, num_tokens=batch.num_tokens, num_micro_batches=len(parts))

    def _step(self, totals: Totals, lr: float, *, num_tokens: int, num_micro_batches: int) -> StepReport:
        norm = clip(self._masters.slots_with_grads(), self.options.max_grad_norm)
        skipped = not (torch.isfinite(totals.loss) and torch.isfinite(norm))
        if not skipped:
            for group in self._optimizer.param_groups:
                group["lr"] = lr
            self._optimizer.step()
            self._masters.write_back()
            self.steps += 1
        return totals.report(
            lr=lr, grad_norm=float(norm), num_tokens=num_tokens, num_micro_batches=num_micro_batches, skipped=skipped
        )

    def reset_reference(self) -> None:
        self._reference = {name: p.detach().clone() for name, p in self._masters.params.items()}
        self._reference_moved = True

    def export_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        yield from named_weights(self.module)

    def save(self, path: Path) -> None:
        _checkpoint.save_tensors(path / _checkpoint.WEIGHTS, self._masters.masters)
        if self._reference is not None and self._reference_moved:
            _checkpoint.save_tensors(path / _checkpoint.REFERENCE, self._reference)
        optimizer = state_by_name(self._optimizer, self._masters.slots, self._masters.masters)
        state = {"optimizer": optimizer, "steps": self.steps, "random": _checkpoint.random_state()}
        torch.save(state, path / _checkpoint.STATE)

    def load(self, path: Path) -> None:
        _checkpoint.load_tensors(path / _checkpoint.WEIGHTS, self._masters.masters)
        self._masters.write_back()
        if self._reference is not None and (path / _checkpoint.REFERENCE).is_file():
            _checkpoint.load_tensors(path / _checkpoint.REFERENCE, self._reference)
            self._reference_moved = True
        state = _checkpoint.load_state(path / _checkpoint.STATE)
        load_state(self._optimizer, state["optimizer"], self._masters.slots, self._masters.masters)
        self.steps = state["steps"]
        _checkpoint.set_random_state(state["random"])

    def save_hf(self, path: Path) -> None:
        self.module.save_pretrained(path, state_dict={name: value.contiguous() for name, value in self.export_weights()})
        if self._peft is not None:
            self._peft.save_pretrained(path / "adapter")
        save_value_head(self.module, path)
        if self.context.model.tokenizer is not None or self.context.model.path is not None:
            load_tokenizer(self.context.model).save_pretrained(str(path))

    def offload(self) -> None:
        self._move(torch.device("cpu"))

    def onload(self) -> None:
        self._move(self.device)

    def _move(self, device: torch.device) -> None:
        self.module.to(device)
        self._policy.value_weight = value_weight(self.module)
        self._masters.move(device)
        if not self.context.frozen:
            move_state(self._optimizer, device)
        if self._reference is not None:
            self._reference = {name: value.to(device) for name, value in self._reference.items()}
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def close(self) -> None:
        """Also when `setup` failed or never ran."""
        self._reference = None
        if hasattr(self, "_masters"):
            self._masters.zero_grad()

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
            "prefix_sharing": self._shares,
            "weight_layout": "column" if self._column else "row",
            "optimizer": self.options.optimizer,
        }

    @property
    def _column(self) -> bool:
        layout = self.options.weight_layout
        return layout == "column" or (layout == "auto" and self.device.type == "cpu")

    @property
    def _shares(self) -> bool:
        return self.options.prefix_sharing and self._policy.packed

    def _plan(self, batch: PackedBatch, unit: Unit = "sequence") -> Plan:
        return Plan.of(batch, self.options.max_tokens_per_micro_batch, unit=unit, share_prefixes=self._shares)

    @contextmanager
    def _training(self) -> Iterator[None]:
        """Layers are in training mode (checkpointing and adapters' dropout ask for it); embeddings give sparse gradients."""
        embedding = self.module.get_input_embeddings()
        self.module.train()
        embedding.sparse = self._masters.sink(embedding.weight) is not None
        try:
            with self._policy.attention():
                yield
        finally:
            embedding.sparse = False
            self.module.eval()

    @contextmanager
    def _weights(self, weights: Weights) -> Iterator[None]:
        """With `reference`, the trainable weights are the reference's inside."""
        if weights == "current":
            yield
            return
        if self._reference is None:
            raise no_reference()
        params = self._masters.params
        current = {name: p.data for name, p in params.items()}
        try:
            for name, p in params.items():
                p.data = self._reference[name]
            yield
        finally:
            for name, p in params.items():
                p.data = current[name]

    def _memory(self) -> Any:
        return explain_out_of_memory(tokens=self.options.max_tokens_per_micro_batch)


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        message = f"train_engine.device: expected auto, cpu, cuda or cuda:N, found {name!r}"
        raise UserError(message) from error
    if device.type == "cuda" and (not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count()):
        message = f"train_engine.device: {name} is not there; torch sees {torch.cuda.device_count()} CUDA devices"
        raise UserError(message)
    return device
