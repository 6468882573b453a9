"""A causal language model from its spec: pretrained or with random weights, always float32 on the CPU.

Engines move, cast, shard and freeze it as they like.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core_rl.errors import ModelError
from core_rl.hf.paths import source_of
from core_rl.hf.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

    from core_rl.hf.spec import ModelSpec


def load_config(spec: ModelSpec) -> PretrainedConfig:
    """The model's configuration with the changes of `spec.config`; vocabulary and special ids follow the tokenizer.

    Raises:
        ModelError: no such model, an unknown `model_type`, or a key that this kind of model does not have.
    """
    import transformers

    source = source_of(spec)
    changes = dict(spec.config)
    if source is None:
        model_type = changes.pop("model_type", None)
        if spec.init != "random" or model_type is None:
            message = "model: give `path`, or `init: random` with `config: {model_type: llama, hidden_size: …}`"
            raise ModelError(message)
        try:
            known = transformers.AutoConfig.for_model(model_type)
        except ValueError as error:
            message = f"model.config.model_type: transformers knows no {model_type!r}"
            raise ModelError(message) from error
        _check_keys(known, changes)
        try:  # built at once, since some fields follow from others (head_dim from hidden_size)
            config = transformers.AutoConfig.for_model(model_type, **changes)
        except (ValueError, TypeError, ZeroDivisionError) as error:
            message = f"model.config: transformers cannot build a {model_type} from it: {first_line(error)}"
            raise ModelError(message) from error
    else:
        config = from_pretrained(transformers.AutoConfig, source, spec)
        _check_keys(config, changes)
        for name, value in changes.items():
            setattr(config, name, value)
    _follow_tokenizer(config, spec)
    return config


def _check_keys(config: PretrainedConfig, changes: Mapping[str, Any]) -> None:
    for name in changes:
        if not hasattr(config, name):
            message = f"model.config: {config.model_type} has no {name!r}"
            raise ModelError(message)


def first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _follow_tokenizer(config: PretrainedConfig, spec: ModelSpec) -> None:
    """A model made from its config alone takes vocabulary size and special ids from its tokenizer."""
    if spec.tokenizer is None:
        return
    tokenizer = load_tokenizer(spec)
    if spec.path is None:
        if "vocab_size" not in spec.config:
            config.vocab_size = len(tokenizer)
        config.eos_token_id = tokenizer.eos_token_id
        config.pad_token_id = tokenizer.pad_token_id
        config.bos_token_id = None
    if config.vocab_size < len(tokenizer):
        message = f"model: the tokenizer has {len(tokenizer)} tokens, the model only vocab_size {config.vocab_size}"
        raise ModelError(message)


def load_model(spec: ModelSpec, *, seed: int) -> PreTrainedModel:
    """The model in float32 on the CPU, in eval mode. `seed` decides random weights and changes no global state."""
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    config = load_config(spec)
    if spec.init == "random":
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            try:
                model = transformers.AutoModelForCausalLM.from_config(
                    config, dtype=torch.float32, trust_remote_code=spec.trust_remote_code
                )
            except (ValueError, TypeError, RuntimeError) as error:
                message = f"model.config: transformers cannot build a {config.model_type} from it: {first_line(error)}"
                raise ModelError(message) from error
    else:
        source = source_of(spec)
        assert source is not None  # load_config has refused a pretrained model without a path
        model = from_pretrained(transformers.AutoModelForCausalLM, source, spec, config=config, dtype=torch.float32)
    model.eval()
    return model


def context_length(spec: ModelSpec) -> int:
    """Tokens that prompt and completion may have together: `max_length`, else the model's own limit."""
    limit = getattr(load_config(spec).get_text_config(), "max_position_embeddings", None)
    if spec.max_length is not None:
        if limit is not None and spec.max_length > limit:
            message = f"model.max_length: {spec.max_length} is beyond the model's own {limit}"
            raise ModelError(message)
        return spec.max_length
    if limit is None:
        message = "model.max_length: this model states no longest sequence; give one"
        raise ModelError(message)
    return int(limit)


def from_pretrained(auto: Any, source: str, spec: ModelSpec, **options: Any) -> Any:
    """`auto.from_pretrained` with its errors in one line."""
    try:
        return auto.from_pretrained(
            source, trust_remote_code=spec.trust_remote_code, local_files_only=Path(source).is_dir(), **options
        )
    except (OSError, ValueError, KeyError) as error:
        message = f"model.path: transformers cannot load {spec.path}: {first_line(error)}"
        raise ModelError(message) from error
