"""Options that train engines have in common. Torch-free."""

from __future__ import annotations

from typing import Any, Literal

import attrs

_at_least: Any = attrs.validators.ge
_above: Any = attrs.validators.gt
_optional: Any = attrs.validators.optional


def _fraction(_: Any, attribute: attrs.Attribute[Any], value: float) -> None:
    if not 0.0 <= value <= 1.0:
        message = f"{attribute.name} is between 0 and 1, found {value}"
        raise ValueError(message)


@attrs.frozen(kw_only=True)
class LoraConfig:
    """Low-rank adapters in place of all weights (peft)."""

    rank: int = attrs.field(default=16, validator=_at_least(1), metadata={"help": "columns of the two factors"})
    alpha: float = attrs.field(default=32.0, validator=_above(0.0), metadata={"help": "the update is scaled by alpha / rank"})
    dropout: float = attrs.field(
        default=0.0, validator=_fraction, metadata={"help": "on the adapters' input, in training only"}
    )
    target_modules: tuple[str, ...] = attrs.field(
        default=(), metadata={"help": "names of the linear layers to adapt; empty takes all but the output head"}
    )
    rslora: bool = attrs.field(default=False, metadata={"help": "scale by alpha / sqrt(rank)"})


@attrs.frozen(kw_only=True)
class OptimizerConfig:
    """The optimizer, its schedule, and how much is computed at once: what every train engine has. The precision is `model.dtype`."""

    optimizer: Literal["adamw", "sgd"] = attrs.field(default="adamw", metadata={"help": "the optimizer"})
    lr: float = attrs.field(default=1e-6, validator=_at_least(0.0), metadata={"help": "peak of the learning rate"})
    betas: tuple[float, float] = attrs.field(default=(0.9, 0.999), metadata={"help": "of adamw"})
    eps: float = attrs.field(default=1e-8, validator=_above(0.0), metadata={"help": "of adamw"})
    momentum: float = attrs.field(default=0.0, validator=_fraction, metadata={"help": "of sgd"})
    weight_decay: float = attrs.field(
        default=0.0, validator=_at_least(0.0), metadata={"help": "decoupled in adamw; never on norms, biases and other vectors"}
    )
    schedule: Literal["constant", "linear", "cosine"] = attrs.field(
        default="constant", metadata={"help": "from the peak to min_lr_ratio over the steps that follow the warm-up"}
    )
    warmup: float = attrs.field(
        default=0.0, validator=_at_least(0.0), metadata={"help": "optimizer steps of warm-up; below 1 a fraction of all steps"}
    )
    min_lr_ratio: float = attrs.field(default=0.0, validator=_fraction, metadata={"help": "where linear and cosine end"})
    max_grad_norm: float | None = attrs.field(
        default=1.0,
        validator=_optional(_above(0.0)),
        metadata={"help": "gradients are scaled down to this norm; null leaves them"},
    )
    max_tokens_per_micro_batch: int = attrs.field(
        default=2048, validator=_at_least(1), metadata={"help": "tokens computed at once, a shared prompt counted once"}
    )


@attrs.frozen(kw_only=True)
class TransformersConfig(OptimizerConfig):
    """With what an engine has that computes a transformers model by `core_rl.hf.packed`."""

    prefix_sharing: bool = attrs.field(
        default=True, metadata={"help": "compute the prompt of a group once, not once for each sample"}
    )
    gradient_checkpointing: bool = attrs.field(
        default=False,
        metadata={"help": "keep no activations inside layers and compute them again: less memory, a third more time"},
    )
    logits_memory_mb: int = attrs.field(
        default=512,
        validator=_at_least(1),
        metadata={"help": "logits that exist at once; beyond it they come in chunks, computed twice"},
    )
    lora: LoraConfig | None = attrs.field(
        default=None, metadata={"help": "train adapters (rank, alpha, …) in place of all weights"}
    )
