"""Which rank has which parameter: pipeline stage, part of the stage, expert-parallel rank."""

from __future__ import annotations

import attrs

from core_rl_megatron._layout import Layout
from core_rl_megatron._rules import Rule


@attrs.frozen(kw_only=True)
class Owner:
    """`stage` is a rank of the pipeline group, `part` one of its virtual parts, `expert_rank` None where all ranks of the stage have it."""

    stage: int
    part: int
    expert_rank: int | None
    name: str


@attrs.frozen(kw_only=True)
class Placement:
    """Layers in the order that megatron gives them out: to the first parts of all stages, then to the second."""

    layout: Layout
    num_layers: int
    num_experts: int = 0

    def owner(self, rule: Rule) -> Owner:
        last = self.layout.pipeline - 1, self.layout.virtual - 1
        layers_of_part = self.num_layers // (self.layout.pipeline * self.layout.virtual)
        stage, part = (0, 0) if rule.place == "first" else last
        layer = 0
        if rule.place == "layer":
            part, rest = divmod(rule.layer, layers_of_part * self.layout.pipeline)
            stage, layer = divmod(rest, layers_of_part)
        expert_rank, expert = None, 0
        if rule.expert is not None:
            expert_rank, expert = divmod(rule.expert, self.num_experts // self.layout.expert)
        return Owner(stage=stage, part=part, expert_rank=expert_rank, name=rule.local.format(layer=layer, expert=expert))
