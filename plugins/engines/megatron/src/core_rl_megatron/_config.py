"""What megatron's TransformerConfig says of a transformers model, and whether it can be shared out so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from core_rl.errors import ModelError, UserError
from core_rl_megatron._families import has_qk_norm, head_dim, is_sparse, num_experts

if TYPE_CHECKING:
    from megatron.core.transformer.transformer_config import TransformerConfig

    from core_rl_megatron._layout import Layout
    from core_rl_megatron.config import MegatronConfig


def transformer_config(hf: Any, options: MegatronConfig, layout: Layout, dtype: torch.dtype) -> TransformerConfig:
    """Plain operations alone: fused ones need Apex or Transformer Engine. Gradients are summed over ranks, never averaged."""
    from megatron.core.transformer.transformer_config import TransformerConfig

    _check_sizes(hf, options, layout)
    return TransformerConfig(
        num_layers=hf.num_hidden_layers,
        hidden_size=hf.hidden_size,
        ffn_hidden_size=hf.intermediate_size,
        num_attention_heads=hf.num_attention_heads,
        num_query_groups=hf.num_key_value_heads,
        kv_channels=head_dim(hf),
        normalization="RMSNorm",
        layernorm_epsilon=hf.rms_norm_eps,
        qk_layernorm=has_qk_norm(hf),
        add_bias_linear=False,
        add_qkv_bias=hf.model_type == "qwen2",
        gated_linear_unit=True,
        activation_func=torch.nn.functional.silu,
        hidden_dropout=0.0,  # log-probabilities of a policy are those it samples with
        attention_dropout=0.0,
        params_dtype=dtype,
        pipeline_dtype=dtype,
        bf16=dtype == torch.bfloat16,
        perform_initialization=False,  # every weight is read or made by transformers
        tensor_model_parallel_size=layout.tensor,
        pipeline_model_parallel_size=layout.pipeline,
        virtual_pipeline_model_parallel_size=layout.virtual if layout.virtual > 1 else None,
        sequence_parallel=options.sequence_parallel,
        variable_seq_lengths=layout.pipeline > 1,  # each micro-batch has its own shape, which stages tell each other
        overlap_p2p_comm=layout.virtual > 1,  # interleaved, two stages are each other's next and previous one, which a batch of
        batch_p2p_comm=layout.virtual == 1,  # messages would mix up
        calculate_per_token_loss=True,  # no division by micro-batches or ranks: weights have the denominators in them
        gradient_accumulation_fusion=False,
        moe_token_dispatcher_type="alltoall",  # noqa: S106 - takes any shape; it is checked without experts too
        **_recompute(options),
        **(_experts(hf, layout) if getattr(hf, "num_experts_per_tok", None) else {}),
    )


def _recompute(options: MegatronConfig) -> dict[str, Any]:
    if options.recompute == "none":
        return {}
    if options.recompute == "selective":
        return {"recompute_granularity": "selective", "recompute_modules": ["core_attn"]}
    return {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}


def _experts(hf: Any, layout: Layout) -> dict[str, Any]:
    """The likeliest experts by softmax, without capacity, balance loss or dropped tokens."""
    return {
        "num_moe_experts": num_experts(hf),
        "moe_ffn_hidden_size": hf.moe_intermediate_size,
        "moe_layer_freq": [int(is_sparse(hf, layer)) for layer in range(hf.num_hidden_layers)],
        "moe_router_topk": hf.num_experts_per_tok,
        "moe_router_pre_softmax": not hf.norm_topk_prob,  # after the choice, softmax is a softmax that sums to 1 over the chosen
        "moe_router_load_balancing_type": "none",
        "expert_model_parallel_size": layout.expert,
        "expert_tensor_parallel_size": 1,
    }


def _check_sizes(hf: Any, options: MegatronConfig, layout: Layout) -> None:
    """Raises `UserError` that says which sizes do."""
    parts = layout.pipeline * layout.virtual
    sparse = hf.model_type == "qwen3_moe"
    for option, size, what, count in (
        ("tensor_parallel", layout.tensor, "query heads", hf.num_attention_heads),
        ("tensor_parallel", layout.tensor, "key heads", hf.num_key_value_heads),
        ("tensor_parallel", layout.tensor, "columns of the mlp", hf.intermediate_size),
        ("pipeline_parallel", parts, "layers", hf.num_hidden_layers),
        ("expert_parallel", layout.expert, "experts", num_experts(hf) if sparse else 1),
    ):
        if count % size:
            fitting = ", ".join(str(k) for k in range(1, min(count, 64) + 1) if count % k == 0)
            times = " * virtual_pipeline" if option == "pipeline_parallel" and layout.virtual > 1 else ""
            message = (
                f"train_engine.{option}{times}: {size} does not divide the {count} {what} of this model: take one of {fitting}"
            )
            raise UserError(message)
    if sparse and layout.tensor > 1 and not options.sequence_parallel:
        message = "train_engine.sequence_parallel: megatron-core asks for it where experts meet tensor_parallel: set it to true"
        raise UserError(message)
    if sparse and hf.num_experts_per_tok == 1 and hf.norm_topk_prob:
        message = (
            "model: one expert for each token with norm_topk_prob gives its router no gradient, which megatron-core refuses"
        )
        raise ModelError(message)
