"""Adapters by peft: the model's own weights freeze, low-rank updates beside them train."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from core_rl.errors import UserError
from core_rl.train.config import LoraConfig


def add_adapters(model: Any, config: LoraConfig, *, seed: int) -> Any:
    """The peft model around `model`, whose layers it changes in place."""
    try:
        import peft
    except ImportError as error:
        message = "train_engine.lora needs peft: pip install peft"
        raise UserError(message) from error
    _refuse_head(model, config)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft 0.21 asks transformers by a name that is to go
        torch.manual_seed(seed)
        try:
            adapted = peft.get_peft_model(
                model,
                peft.LoraConfig(
                    r=config.rank,
                    lora_alpha=config.alpha,
                    lora_dropout=config.dropout,
                    target_modules=list(config.target_modules) or "all-linear",
                    use_rslora=config.rslora,
                    task_type=None if model.get_output_embeddings() is None else "CAUSAL_LM",
                ),
            )
        except ValueError as error:
            message = (
                f"train_engine.lora: peft refuses target_modules {list(config.target_modules)}: {str(error).splitlines()[0]}"
            )
            raise UserError(message) from error
    return adapted


def _refuse_head(model: Any, config: LoraConfig) -> None:
    """Its log-probabilities come straight from its weight, chunk by chunk."""
    output = model.get_output_embeddings()
    if output is None:  # a model of values alone
        return
    head = next(name for name, module in model.named_modules() if module is output)
    if any(target.split(".")[-1] == head.split(".")[-1] for target in config.target_modules):
        message = f"train_engine.lora.target_modules: the output head {head} cannot be adapted; leave it out"
        raise UserError(message)
