"""The megatron train engine: one object on each rank, every method called on all of them with the same arguments.

A rank takes its share of the sequences (`_blocks`), computes its layers and heads of the model (`_model`), and on the last stage its
part of the vocabulary (`_head`, `_outputs`). Gradients are summed over ranks and the optimizer steps on all (`_optimizer`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from core_rl.hf.load import load_config
from core_rl.train import checkpoint as _state
from core_rl.train.memory import explain_out_of_memory
from core_rl.train.micro_batches import scalar_loss
from core_rl.train.refusals import no_reference, refuse_float16
from core_rl.train.results import FIELDS, room_for
from core_rl.train.schedule import learning_rate
from core_rl.train.totals import Totals
from core_rl.workers.process_group import join
from core_rl_megatron._backend import require_cuda, require_megatron
from core_rl_megatron._blocks import Block, PaddedPlan
from core_rl_megatron._families import check_family
from core_rl_megatron._layout import Layout
from core_rl_megatron._parking import Parked
from core_rl_megatron._reference import Reference

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.roles.train import Aggregation, Objective, StepReport, TokenOutput, TrainContext, Unit, Weights
    from core_rl.train.micro_batches import MicroBatch
    from core_rl_megatron._holding import Holding
    from core_rl_megatron._model import PolicyModel
    from core_rl_megatron._optimizer import Optimizer
    from core_rl_megatron.config import MegatronConfig


class MegatronTrainEngine:
    """A `core_rl.roles.train.TrainEngine`."""

    _holding: Holding
    _modules: Sequence[Any]
    """The model's parts; with gradients, in megatron's data-parallel wrapper."""

    def __init__(self, options: MegatronConfig, context: TrainContext) -> None:
        self.options = options
        self.context = context
        self.steps = 0
        self._layout: Layout | None = None
        self._optimizer: Optimizer | None = None
        self._reference: Reference | None = None
        self._reference_moved = False
        self._parked: Parked | None = None

    def setup(self) -> None:
        refuse_float16(self.context.model, engine="megatron")
        check_family(load_config(self.context.model))
        require_megatron()
        member = join(self.options.device)
        require_cuda(member.device)
        layout = Layout.of(self.options, member.world_size)
        layout.enter()
        self._layout = layout
        from core_rl_megatron._holding import Holding

        self._holding = Holding.build(self.options, self.context, layout, member.device)
        self._modules = self._holding.parts
        if self.context.frozen:
            for parameter in self._holding.parameters():
                parameter.requires_grad_(False)
        else:
            self._set_up_optimizer()
        for module in self._modules:
            module.eval()
        if self.context.reference:
            self.reset_reference()
            self._reference_moved = False

    def _set_up_optimizer(self) -> None:
        from core_rl_megatron._optimizer import Optimizer, wrap
        from core_rl_megatron._pipeline import finalize

        config = self._holding.config
        config.finalize_model_grads_func = finalize
        self._modules = wrap(self._holding.parts, config, self.options)
        self._optimizer = Optimizer(self._modules, self.options, config.params_dtype)

    def forward(
        self,
        batch: PackedBatch,
        outputs: Sequence[TokenOutput] = ("logprobs",),
        *,
        weights: Weights = "current",
        top_k: int | None = None,
    ) -> dict[str, torch.Tensor]:
        vocabulary, device = self._holding.hf.vocab_size, self._holding.device
        results = room_for(batch, outputs, heads=self.context.heads, top_k=top_k, vocabulary=vocabulary, device=device)
        own = self._plan(batch)[self._holding.data_rank]

        def finish(hidden: torch.Tensor, block: Block) -> torch.Tensor:
            found = self._holding.reader.outputs(self._last, hidden, block, top_k=top_k or 0)
            if block.counts and self._holding.speaks:
                where = block.where.to(hidden.device)
                for name, result in results.items():
                    result[where] = getattr(found, FIELDS.get(name, name))
            return hidden.new_zeros(())

        with torch.no_grad(), self._with_weights(weights):
            self._run(batch, own, finish, backward=False)
        for result in results.values():
            dist.all_reduce(result)  # each place is 0 on all ranks but one
        return {name: result.cpu() for name, result in results.items()}

    def train_step(self, batch: PackedBatch, objective: Objective, aggregation: Aggregation) -> StepReport:
        assert self._optimizer is not None, "a frozen model is never trained"
        lr = learning_rate(self.options, self.steps, self.context.total_steps)
        plan = self._plan(batch, getattr(objective, "unit", "sequence"))
        if not plan[0]:  # nothing to learn from: momentum alone must not move the weights
            return Totals().report(lr=lr)
        weights, totals = aggregation.weights(batch), Totals()

        def finish(hidden: torch.Tensor, block: Block) -> torch.Tensor:
            found = self._holding.reader.outputs(self._last, hidden, block, entropy_grad=objective.entropy_grad)
            nothing = hidden.sum().float() * 0.0  # every micro-batch goes back, whatever its loss is of
            if not block.counts:
                return nothing
            loss = objective(found, block.part.to(hidden.device))
            value = scalar_loss(loss, weights[block.where].to(hidden.device))
            if self._holding.speaks:
                totals.add(value.detach(), loss)
            return value + nothing

        self._optimizer.zero_grad()
        with self._training():
            self._run(batch, plan[self._holding.data_rank], finish, backward=True)
        totals.gather()
        counted = sum(part.counts for parts in plan for part in parts)
        return self._step(totals, lr, num_tokens=batch.num_tokens, num_micro_batches=counted)

    def _step(self, totals: Totals, lr: float, *, num_tokens: int, num_micro_batches: int) -> StepReport:
        assert self._optimizer is not None
        loss, norm = float(totals.loss), self._optimizer.gradient_norm()
        skipped = not (math.isfinite(loss) and math.isfinite(norm))
        if not skipped:
            self._optimizer.step(lr, norm, self.options.max_grad_norm)
            self.steps += 1
        return totals.report(lr=lr, grad_norm=norm, num_tokens=num_tokens, num_micro_batches=num_micro_batches, skipped=skipped)

    def _run(self, batch: PackedBatch, parts: Sequence[MicroBatch], finish: Any, *, backward: bool) -> None:
        from core_rl_megatron._pipeline import run

        holding = self._holding
        blocks = [Block.of(batch, part, holding.device, multiple=holding.width_multiple) for part in parts]
        if blocks:
            with explain_out_of_memory(tokens=self.options.max_tokens_per_micro_batch, or_else="set train_engine.recompute"):
                run(self._modules, blocks, finish, backward=backward)

    def _plan(self, batch: PackedBatch, unit: Unit = "sequence") -> list[list[MicroBatch]]:
        """The micro-batches of every data-parallel rank."""
        plan = PaddedPlan.of(batch, self.options.max_tokens_per_micro_batch, unit=unit)
        assert isinstance(plan, PaddedPlan)
        return plan.of_ranks_in_multiples(batch, self._holding.layout.data, self._holding.block_multiple)

    @property
    def _last(self) -> PolicyModel:
        return self._holding.parts[-1]

    @contextmanager
    def _training(self) -> Iterator[None]:
        """Recomputation and the mixture of experts ask for the mode."""
        for module in self._modules:
            module.train()
        try:
            yield
        finally:
            for module in self._modules:
                module.eval()

    @contextmanager
    def _with_weights(self, weights: Weights) -> Iterator[None]:
        """With `reference`, the model's weights are the reference's inside."""
        if weights == "current":
            yield
            return
        if self._reference is None:
            raise no_reference()
        with self._reference.in_place():
            yield

    def reset_reference(self) -> None:
        self._reference = Reference(self._holding.parameters())
        self._reference_moved = True

    def export_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        yield from self._holding.export()

    def save(self, path: Path) -> None:
        from core_rl_megatron import _checkpoint

        parts = self._holding.named_parts()
        _checkpoint.save(path / "weights", parts, self._optimizer)
        if self._reference is not None and self._reference_moved:
            with self._reference.in_place():
                _checkpoint.save(path / "reference", parts, None)
        if dist.get_rank() == 0:
            torch.save({"steps": self.steps, "random": _state.random_state()}, path / _state.STATE)
        dist.barrier()

    def load(self, path: Path) -> None:
        from core_rl_megatron import _checkpoint

        parts = self._holding.named_parts()
        _checkpoint.load(path / "weights", parts, self._optimizer)
        if self._reference is not None and (path / "reference").is_dir():
            with self._reference.in_place():
                _checkpoint.load(path / "reference", parts, None)
                self._reference.take()
            self._reference_moved = True
        state = _state.load_state(path / _state.STATE)
        self.steps = state["steps"]
        _state.set_random_state(state["random"])

    def save_hf(self, path: Path) -> None:
        from core_rl_megatron._export import save_hf

        save_hf(path, self._holding, self.context)

    def offload(self) -> None:
        if self._parked is not None:
            return
        optimizer = self._optimizer
        kept = [*self._holding.parameters(), *(optimizer.tensors() if optimizer else ())]
        self._parked = Parked(kept, optimizer.gradients() if optimizer else ())
        if self._holding.device.type == "cuda":
            torch.cuda.empty_cache()

    def onload(self) -> None:
        if self._parked is not None:
            self._parked.restore()
            self._parked = None

    def close(self) -> None:
        """Also when `setup` failed or never ran."""
        self._reference = self._optimizer = self._parked = None
        self.__dict__.pop("_holding", None)
        self.__dict__.pop("_modules", None)
        if self._layout is not None:
            self._layout.leave()
            self._layout = None

    def describe(self) -> Mapping[str, Any]:
        """All ranks together: they tell each other what they hold."""
        holding, options = self._holding, self.options
        total = holding.weights.num_parameters(holding.hf.vocab_size)
        return {
            "model_type": holding.hf.model_type,
            "parameters": total,
            "trainable_parameters": 0 if self.context.frozen else total,
            "heads": self.context.heads,
            "device": holding.device.type,
            "dtype": self.context.model.dtype,
            "layout": holding.layout.words(),
            "sequence_parallel": options.sequence_parallel,
            "distributed_optimizer": options.shares_optimizer,
            "recompute": options.recompute,
            "optimizer": options.optimizer,
        }
