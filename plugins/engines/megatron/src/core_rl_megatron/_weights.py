"""Weights into a rank's parts of the model, and out of all ranks again under their Hugging Face names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import torch
import torch.distributed as dist

from core_rl.errors import ModelError
from core_rl_megatron._placement import Owner, Placement
from core_rl_megatron._rules import Rule

if TYPE_CHECKING:
    from core_rl_megatron._source import Source


@attrs.frozen(kw_only=True, eq=False)
class Place:
    """This rank in its groups."""

    tensor: Any
    pipeline: Any
    expert: Any

    @classmethod
    def here(cls) -> Place:
        from megatron.core import parallel_state as state

        return cls(
            tensor=state.get_tensor_model_parallel_group(),
            pipeline=state.get_pipeline_model_parallel_group(),
            expert=state.get_expert_model_parallel_group(),
        )

    def owns(self, owner: Owner) -> bool:
        return owner.stage == self.pipeline.rank() and owner.expert_rank in (None, self.expert.rank())


@attrs.define
class Weights:
    """The parameters of `parts`, the virtual parts of this rank's stage."""

    parts: Sequence[torch.nn.Module]
    rules: Sequence[Rule]
    placement: Placement
    place: Place

    def mine(self) -> Iterator[tuple[Rule, torch.nn.Parameter]]:
        for rule in self.rules:
            owner = self.placement.owner(rule)
            if self.place.owns(owner):
                yield rule, self.parts[owner.part].get_parameter(owner.name)

    def mark(self) -> None:
        """Tell megatron which parameters are parts of a whole, and which are experts'.

        The norm of gradients counts what is not a part on one rank alone; its layers say so when they fill their weights at random,
        which they are told not to. Gradients of experts are summed over the ranks that have the same expert, tensor-parallel ones
        among them; its layers say so only with expert parallelism.
        """
        from megatron.core.tensor_parallel import set_tensor_model_parallel_attributes

        for rule, parameter in self.mine():
            parameter.allreduce = rule.expert is None  # type: ignore[attr-defined]
            if not hasattr(parameter, "tensor_model_parallel"):
                is_part = rule.axis is not None or rule.expert is not None
                set_tensor_model_parallel_attributes(parameter, is_part, rule.axis or 0, 1)

    @torch.no_grad()
    def read(self, source: Source) -> set[str]:
        """Fill every parameter. Returns the optional weights that the source has not."""
        missing: set[str] = set()
        filled: set[int] = set()
        for rule, parameter in self.mine():
            filled.add(id(parameter))
            if rule.optional and rule.hf[0] not in source:
                missing.add(rule.hf[0])
                continue
            _fill(parameter, self._part(rule, source), rule)
        left = [name for part in self.parts for name, p in part.named_parameters() if id(p) not in filled]
        assert not left, f"no rule fills {left}"
        return missing

    def _part(self, rule: Rule, source: Source) -> torch.Tensor:
        pieces = []
        for name in rule.hf:
            if rule.axis is None:
                pieces.append(source.read(name))
                continue
            start, stop = rule.span(source.shape(name)[rule.axis], self.place.tensor.rank(), self.place.tensor.size())
            pieces.append(source.read(name, rule.axis, start, stop))
        return rule.join(pieces)

    def shapes(self) -> dict[int, tuple[torch.Size, torch.dtype]]:
        """Of every rule's parameter, by the rule's number; ranks tell each other once."""
        numbers = {id(rule): number for number, rule in enumerate(self.rules)}
        own = {numbers[id(rule)]: (p.shape, p.dtype) for rule, p in self.mine()}
        found: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(found, own)
        return {number: shape for each in found for number, shape in each.items()}

    def num_parameters(self, vocabulary: int) -> int:
        """Of the whole model, without padding and copies."""
        total = 0
        for number, (shape, _) in self.shapes().items():
            rule = self.rules[number]
            rows = vocabulary if rule.pads else shape[0] * (self.place.tensor.size() if rule.axis is not None else 1)
            total += 0 if rule.alias else rows * shape[1:].numel()
        return total

    @torch.no_grad()
    def export(self, vocabulary: int, *, private: bool = False) -> Iterator[tuple[str, torch.Tensor]]:
        """(name, whole tensor) on every rank, one parameter at a time; `private`: those that are no part of the model instead."""
        shapes = self.shapes()
        device = next(p.device for part in self.parts for p in part.parameters())
        for number, rule in enumerate(self.rules):
            if rule.alias or rule.private is not private:
                continue
            owner = self.placement.owner(rule)
            mine = self.parts[owner.part].get_parameter(owner.name).detach() if self.place.owns(owner) else None
            for name, tensor in zip(rule.hf, self._whole(rule, owner, mine, shapes[number], device), strict=True):
                yield name, tensor[:vocabulary] if rule.pads else tensor

    def _whole(
        self,
        rule: Rule,
        owner: Owner,
        mine: torch.Tensor | None,
        shape: tuple[torch.Size, torch.dtype],
        device: torch.device,
    ) -> list[torch.Tensor]:
        """The rank's part goes to its peers in other stages, then all parts come together."""
        part = torch.empty(shape[0], dtype=shape[1], device=device) if mine is None else mine
        here = owner.stage == self.place.pipeline.rank()
        if owner.expert_rank is not None and here and self.place.expert.size() > 1:
            dist.broadcast(part, group=self.place.expert, group_src=owner.expert_rank)
        if self.place.pipeline.size() > 1:
            dist.broadcast(part, group=self.place.pipeline, group_src=owner.stage)
        if rule.axis is None or self.place.tensor.size() == 1:
            return [piece.contiguous() for piece in rule.split(part)]
        parts = [torch.empty_like(part) for _ in range(self.place.tensor.size())]
        dist.all_gather(parts, part.contiguous(), group=self.place.tensor)
        pieces = zip(*(rule.split(each) for each in parts), strict=True)
        return [torch.cat(list(each), rule.axis) for each in pieces]


def _fill(parameter: torch.Tensor, value: torch.Tensor, rule: Rule) -> None:
    if rule.pads and value.shape[0] < parameter.shape[0]:
        parameter[value.shape[0] :] = 0
        parameter = parameter[: value.shape[0]]
    if parameter.shape != value.shape:
        message = (
            f"model: {' and '.join(rule.hf)} have {list(value.shape)} for a rank, and the config says {list(parameter.shape)}: "
            "config.json and weights are of different models"
        )
        raise ModelError(message)
    parameter.copy_(value)
