"""The families of models that there is a mapping for: which weights they have, and how megatron is told to compute them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from core_rl.errors import ModelError
from core_rl.hf.packed.weights import VALUE_HEAD
from core_rl_megatron._rules import Rule

if TYPE_CHECKING:
    from core_rl.roles.train import Heads

SUPPORTED = ("llama", "qwen2", "qwen3", "qwen3_moe")


def check_family(config: Any) -> None:
    """Raises `ModelError` for a model that would be computed wrongly."""
    if config.model_type not in SUPPORTED:
        message = (
            f"model: the megatron engine has no mapping for {config.model_type}; it has {', '.join(SUPPORTED)}: take one of these, or "
            "the engine fsdp, which trains any transformers model"
        )
        raise ModelError(message)
    windows = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
    for what, odd in (
        ("a sliding window", bool(windows)),
        ("a bias in its attention", config.model_type != "qwen2" and getattr(config, "attention_bias", False)),
        ("a bias in its mlp", getattr(config, "mlp_bias", False)),
        (f"the activation {config.hidden_act}", config.hidden_act != "silu"),
    ):
        if odd:
            message = f"model: this {config.model_type} has {what}, which the megatron engine's mapping has not"
            raise ModelError(message)


def head_dim(config: Any) -> int:
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def is_sparse(config: Any, layer: int) -> bool:
    """Whether this layer has experts."""
    if config.model_type != "qwen3_moe":
        return False
    return layer not in config.mlp_only_layers and (layer + 1) % config.decoder_sparse_step == 0


def num_experts(config: Any) -> int:
    return int(config.num_local_experts if hasattr(config, "num_local_experts") else config.num_experts)


def rules(config: Any, heads: Heads, *, separate_output: bool) -> list[Rule]:
    """In the order of the model. `separate_output`: a tied output layer is a copy of its own, on another pipeline stage."""
    found = [
        Rule(hf=("model.embed_tokens.weight",), local="embedding.word_embeddings.weight", axis=0, place="first", pads=True)
    ]
    for layer in range(config.num_hidden_layers):
        found += _layer(config, layer)
    found.append(Rule(hf=("model.norm.weight",), local="decoder.final_layernorm.weight", place="last"))
    output: dict[str, Any] = {"local": "output_layer.weight", "axis": 0, "place": "last", "pads": True}
    if heads != "policy":  # beside an output layer it is the engine's own, and not exported
        beside = heads == "both"
        name = f"{VALUE_HEAD if beside else 'score'}.weight"
        found.append(Rule(hf=(name,), local="value_head.weight", place="last", optional=True, private=beside))
    if heads == "value":
        return found
    if not config.tie_word_embeddings:
        found.append(Rule(hf=("lm_head.weight",), **output))
    elif separate_output:
        found.append(Rule(hf=("model.embed_tokens.weight",), alias=True, **output))
    return found


def _layer(config: Any, layer: int) -> Iterator[Rule]:
    hf, local = f"model.layers.{layer}.", "decoder.layers.{layer}."
    size = head_dim(config)
    group = (config.num_attention_heads // config.num_key_value_heads * size, size, size)

    def rule(names: tuple[str, ...], name: str, **how: Any) -> Rule:
        return Rule(hf=tuple(hf + each for each in names), local=local + name, layer=layer, **how)

    yield rule(("input_layernorm.weight",), "input_layernorm.weight")
    for kind in ("weight", "bias") if config.model_type == "qwen2" else ("weight",):
        qkv = tuple(f"self_attn.{x}_proj.{kind}" for x in "qkv")
        yield rule(qkv, f"self_attention.linear_qkv.{kind}", axis=0, fuse="heads", group_rows=group)
    if has_qk_norm(config):
        yield rule(("self_attn.q_norm.weight",), "self_attention.q_layernorm.weight")
        yield rule(("self_attn.k_norm.weight",), "self_attention.k_layernorm.weight")
    yield rule(("self_attn.o_proj.weight",), "self_attention.linear_proj.weight", axis=1)
    yield rule(("post_attention_layernorm.weight",), "pre_mlp_layernorm.weight")
    if not is_sparse(config, layer):
        yield rule(("mlp.gate_proj.weight", "mlp.up_proj.weight"), "mlp.linear_fc1.weight", axis=0, fuse="rows")
        yield rule(("mlp.down_proj.weight",), "mlp.linear_fc2.weight", axis=1)
        return
    yield rule(("mlp.gate.weight",), "mlp.router.weight")
    for expert in range(num_experts(config)):
        names = tuple(f"mlp.experts.{expert}.{x}_proj.weight" for x in ("gate", "up"))
        yield rule(names, "mlp.experts.local_experts.{expert}.linear_fc1.weight", fuse="rows", expert=expert)
        down = (f"mlp.experts.{expert}.down_proj.weight",)
        yield rule(down, "mlp.experts.local_experts.{expert}.linear_fc2.weight", expert=expert)


def has_qk_norm(config: Any) -> bool:
    return config.model_type in {"qwen3", "qwen3_moe"}
