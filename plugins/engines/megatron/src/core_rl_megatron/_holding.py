"""The share of the model that a rank holds: its parts, their weights, and what the last stage says of tokens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import torch
from megatron.core import parallel_state
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed

from core_rl.hf.load import load_config
from core_rl.hf.packed.values import VALUE_HEAD_FILE
from core_rl.hf.values import small_head
from core_rl_megatron._config import transformer_config
from core_rl_megatron._families import num_experts, rules
from core_rl_megatron._model import PolicyModel, build_parts
from core_rl_megatron._outputs import Reader
from core_rl_megatron._placement import Placement
from core_rl_megatron._source import open_source
from core_rl_megatron._weights import Place, Weights

if TYPE_CHECKING:
    from megatron.core.transformer.transformer_config import TransformerConfig

    from core_rl.roles.train import TrainContext
    from core_rl_megatron._layout import Layout
    from core_rl_megatron.config import MegatronConfig


@attrs.frozen(kw_only=True, eq=False)
class Holding:
    """`hf` is the model's transformers configuration, `config` megatron's."""

    hf: Any
    config: TransformerConfig
    layout: Layout
    device: torch.device
    parts: list[PolicyModel]
    weights: Weights
    reader: Reader

    @classmethod
    def build(cls, options: MegatronConfig, context: TrainContext, layout: Layout, device: torch.device) -> Holding:
        """Weights are read or made; every rank reads only its own."""
        hf = load_config(context.model)
        config = transformer_config(hf, options, layout, getattr(torch, context.model.dtype))
        with torch.random.fork_rng(devices=[]):
            model_parallel_cuda_manual_seed(context.seed)  # sequence parallelism asks for its generators; nothing is drawn
            parts = build_parts(hf, config, context.heads, device)
        sparse = config.num_moe_experts is not None
        placement = Placement(layout=layout, num_layers=hf.num_hidden_layers, num_experts=num_experts(hf) if sparse else 0)
        found = rules(hf, context.heads, separate_output=layout.pipeline > 1)
        weights = Weights(parts=parts, rules=found, placement=placement, place=Place.here())
        weights.mark()
        missing = weights.read(open_source(context.model, context.heads, seed=context.seed))
        _new_head(parts[-1], missing, context)
        reader = Reader(
            vocabulary=hf.vocab_size, temperature=context.temperature, logits_bytes=options.logits_memory_mb * 2**20
        )
        return cls(hf=hf, config=config, layout=layout, device=device, parts=parts, weights=weights, reader=reader)

    @property
    def data_rank(self) -> int:
        rank: int = parallel_state.get_data_parallel_rank()
        return rank

    @property
    def speaks(self) -> bool:
        """Whether this rank tells the others what its micro-batches gave: the last stage does, once."""
        return bool(parallel_state.is_pipeline_last_stage() and parallel_state.get_tensor_model_parallel_rank() == 0)

    @property
    def width_multiple(self) -> int:
        """Of a block: tensor-parallel ranks share its tokens."""
        return self.layout.tensor if self.config.sequence_parallel else 1

    @property
    def block_multiple(self) -> int:
        """Of a step: the interleaved schedule goes round the stages."""
        return self.layout.pipeline if self.layout.virtual > 1 else 1

    def parameters(self) -> list[torch.nn.Parameter]:
        return [p for part in self.parts for p in part.parameters()]

    def named_parts(self) -> dict[str, PolicyModel]:
        """As megatron's checkpoints name them."""
        if len(self.parts) == 1:
            return {"model": self.parts[0]}
        return {f"model{number}": part for number, part in enumerate(self.parts)}

    def export(self, *, private: bool = False) -> Iterator[tuple[str, torch.Tensor]]:
        yield from self.weights.export(self.hf.vocab_size, private=private)


@torch.no_grad()
def _new_head(part: PolicyModel, missing: set[str], context: TrainContext) -> None:
    """A value head that the folder has not, or has beside the model."""
    if part.value_head is None or not missing:
        return
    small_head(part.value_head.weight, seed=context.seed)
    file = None if context.model.path is None else Path(context.model.path) / VALUE_HEAD_FILE
    if context.heads == "both" and file is not None and file.is_file():
        from safetensors.torch import load_file

        part.value_head.weight.copy_(load_file(file)["weight"])
