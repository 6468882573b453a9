"""The layers of a decoder out of megatron's tensor-parallel parts, with a norm and an attention of our own.

Megatron's torch norm refuses sequence parallelism, and its plain attention writes all scores out: [batch, heads, s, s]. torch's own
attention does not, and picks its flash kernel on a GPU. Neither needs Apex or Transformer Engine.

s tokens of a block, b its sequences, n query heads and g key heads of this rank, d their size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import scaled_dot_product_attention

if TYPE_CHECKING:
    from megatron.core.transformer.spec_utils import ModuleSpec
    from megatron.core.transformer.transformer_config import TransformerConfig


class Norm(torch.nn.Module):
    """Root mean square, rounded as transformers rounds it. Its gradient is partial where tokens are shared, which the mark says."""

    def __init__(self, config: TransformerConfig, hidden_size: int, eps: float, **options: Any) -> None:
        super().__init__()
        del options
        self.eps = eps
        self.weight = torch.nn.Parameter(torch.ones(hidden_size, dtype=config.params_dtype))
        self.weight.sequence_parallel = config.sequence_parallel  # type: ignore[attr-defined]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        full = x.float()
        full = full * torch.rsqrt(full.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * full.to(x.dtype)


class CausalAttention(torch.nn.Module):
    """Blocks are padded on the right, so that being causal is all the masking there is."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__()
        del args, options

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: None, **options: Any
    ) -> torch.Tensor:
        """query [s, b, n, d], key and value [s, b, g, d] -> [s, b, n·d]"""
        assert attention_mask is None
        assert options.get("packed_seq_params") is None
        q, k, v = (x.permute(1, 2, 0, 3) for x in (query, key, value))
        out = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
        return out.permute(2, 0, 1, 3).flatten(2)


def layer_spec(config: TransformerConfig, *, sparse: bool) -> ModuleSpec:
    """One layer; `sparse` has experts in place of the mlp."""
    from megatron.core.fusions.fused_bias_dropout import get_bias_dropout_add
    from megatron.core.tensor_parallel import ColumnParallelLinear, RowParallelLinear
    from megatron.core.transformer.attention import SelfAttention, SelfAttentionSubmodules
    from megatron.core.transformer.enums import AttnMaskType
    from megatron.core.transformer.mlp import MLP, MLPSubmodules
    from megatron.core.transformer.spec_utils import ModuleSpec
    from megatron.core.transformer.transformer_layer import TransformerLayer, TransformerLayerSubmodules

    linears = MLPSubmodules(linear_fc1=ColumnParallelLinear, linear_fc2=RowParallelLinear)
    attention = SelfAttentionSubmodules(
        linear_qkv=ColumnParallelLinear,
        core_attention=CausalAttention,
        linear_proj=RowParallelLinear,
        q_layernorm=Norm if config.qk_layernorm else None,
        k_layernorm=Norm if config.qk_layernorm else None,
    )
    return ModuleSpec(
        module=TransformerLayer,
        submodules=TransformerLayerSubmodules(
            input_layernorm=Norm,
            self_attention=ModuleSpec(
                module=SelfAttention, params={"attn_mask_type": AttnMaskType.causal}, submodules=attention
            ),
            self_attn_bda=get_bias_dropout_add,
            pre_mlp_layernorm=Norm,
            mlp=_experts(linears) if sparse else ModuleSpec(module=MLP, submodules=linears),
            mlp_bda=get_bias_dropout_add,
        ),
    )


def _experts(linears: Any) -> ModuleSpec:
    from megatron.core.transformer.moe.experts import SequentialMLP
    from megatron.core.transformer.moe.moe_layer import MoELayer, MoESubmodules
    from megatron.core.transformer.spec_utils import ModuleSpec

    from core_rl_megatron._router import Router

    experts = ModuleSpec(module=SequentialMLP, submodules=linears)
    return ModuleSpec(module=MoELayer, submodules=MoESubmodules(experts=experts, router=Router))
