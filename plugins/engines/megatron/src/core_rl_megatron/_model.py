"""Megatron's GPT model up to the hidden states of its last layer; what follows is `_head`'s, for the tokens that are scored alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from megatron.core import parallel_state
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.tensor_parallel import gather_from_sequence_parallel_region
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules, get_num_layers_to_build
from megatron.core.transformer.transformer_layer import get_transformer_layer_offset

from core_rl.errors import ModelError
from core_rl_megatron._families import is_sparse
from core_rl_megatron._layers import Norm, layer_spec
from core_rl_megatron._rules import padded

if TYPE_CHECKING:
    from megatron.core.transformer.transformer_config import TransformerConfig

    from core_rl.roles.train import Heads


class PolicyModel(GPTModel):  # type: ignore[misc] # megatron carries no types
    """One part of the model: `forward` gives hidden states [s, b, E], of the tokens of this rank with sequence parallelism."""

    def __init__(self, hf: Any, config: TransformerConfig, heads: Heads, *, part: int | None) -> None:
        first = parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=part)
        last = parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=part)
        super().__init__(
            config=config,
            transformer_layer_spec=_block_spec(hf, config, part),
            vocab_size=padded(hf.vocab_size, config.tensor_model_parallel_size),
            max_sequence_length=hf.max_position_embeddings,
            pre_process=first,
            post_process=last,
            share_embeddings_and_output_weights=bool(hf.tie_word_embeddings) and heads != "value",
            position_embedding_type="rope",
            vp_stage=part,
        )
        self.rotary_pos_emb.inv_freq = _frequencies(hf)
        self.has_logits = last and heads != "value"
        if last and heads == "value":
            self.output_layer: Any = None
        has_values = last and heads != "policy"
        self.value_head = torch.nn.Linear(hf.hidden_size, 1, bias=False, dtype=config.params_dtype) if has_values else None

    def _postprocess(self, hidden_states: torch.Tensor, **options: Any) -> torch.Tensor:
        del options
        return hidden_states

    def output_weight(self) -> torch.Tensor:
        """[padded V / ranks, E]"""
        weight: torch.Tensor = (
            self.shared_embedding_or_output_weight() if self.share_embeddings_and_output_weights else self.output_layer.weight
        )
        return weight

    def whole_sequences(self, hidden: torch.Tensor) -> torch.Tensor:
        """[s, b, E] of all tokens. The gradient that comes back is whole on every rank, so each takes its own tokens' of it."""
        if not self.config.sequence_parallel:
            return hidden
        gathered: torch.Tensor = gather_from_sequence_parallel_region(hidden, tensor_parallel_output_grad=False)
        return gathered

    def sharded_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Megatron's looks for the output layer on the last stage, which a model of values has not."""
        last: bool = self.post_process  # type: ignore[has-type]
        self.post_process = last and self.output_layer is not None
        try:
            return super().sharded_state_dict(*args, **kwargs)
        finally:
            self.post_process = last


def build_parts(hf: Any, config: TransformerConfig, heads: Heads, device: torch.device) -> list[PolicyModel]:
    """The virtual parts of this rank's stage, with weights that are not set yet."""
    virtual = config.virtual_pipeline_model_parallel_size
    parts = [PolicyModel(hf, config, heads, part=part if virtual else None) for part in range(virtual or 1)]
    return [part.to(device) for part in parts]


def _block_spec(hf: Any, config: TransformerConfig, part: int | None) -> TransformerBlockSubmodules:
    start = get_transformer_layer_offset(config, vp_stage=part)
    count = get_num_layers_to_build(config, vp_stage=part)
    specs = [layer_spec(config, sparse=is_sparse(hf, layer)) for layer in range(start, start + count)]
    return TransformerBlockSubmodules(layer_specs=specs, layer_norm=Norm)


def _frequencies(hf: Any) -> torch.Tensor:
    """transformers' own, with whatever stretches them for long sequences."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    kind = hf.rope_parameters.get("rope_type", "default")
    if kind == "default":
        size = getattr(hf, "head_dim", None) or hf.hidden_size // hf.num_attention_heads
        exponents = torch.arange(0, size, 2, dtype=torch.int64).float() / size
        plain: torch.Tensor = 1.0 / (hf.rope_parameters["rope_theta"] ** exponents)
        return plain
    if kind not in ROPE_INIT_FUNCTIONS or kind == "dynamic":
        message = f"model: the megatron engine has no position embedding of type {kind!r}"
        raise ModelError(message)
    frequencies, scale = ROPE_INIT_FUNCTIONS[kind](hf, device=torch.device("cpu"))
    if scale != 1.0:
        message = f"model: position embeddings of type {kind!r} scale attention by {scale:g}, which the megatron engine has not"
        raise ModelError(message)
    return torch.as_tensor(frequencies)
