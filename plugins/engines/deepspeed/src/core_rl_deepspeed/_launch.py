"""From a whole model to DeepSpeed's engine of the asked stage."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import attrs

from core_rl.errors import UserError
from core_rl.hf.packed.module import Inside
from core_rl.train.optimizer import build_optimizer
from core_rl_deepspeed._backend import require_deepspeed
from core_rl_deepspeed._known_keys import check_keys
from core_rl_deepspeed._linear import Linear, current, in_place
from core_rl_deepspeed._settings import ds_config
from core_rl_deepspeed._stage_0 import Replicas
from core_rl_deepspeed._stage_1 import FlatShards
from core_rl_deepspeed._stage_3 import Partitions

if TYPE_CHECKING:
    import torch

    from core_rl.roles.train import TrainContext
    from core_rl_deepspeed._model import Built
    from core_rl_deepspeed._shards import Shards
    from core_rl_deepspeed.config import DeepSpeedConfig


@attrs.frozen(kw_only=True)
class Launched:
    """`inside` is what computes. `engine` is DeepSpeed's; a frozen model that is whole on every rank has none."""

    inside: Inside
    shards: Shards
    engine: Any = None
    linear: Linear
    """What computes linear layers."""


def settings_of(options: DeepSpeedConfig, context: TrainContext) -> dict[str, Any]:
    """DeepSpeed's configuration, checked.

    Raises:
        UserError: a key or value of `config` is wrong, or does not go with a reference policy.
    """
    settings = ds_config(options, context.model.dtype)
    check_keys(settings)
    zero: Mapping[str, Any] = settings["zero_optimization"]
    for name, nothing in (("zero_hpz_partition_size", 1), ("zero_quantized_weights", False)):
        if context.reference and zero.get(name, nothing) != nothing:
            message = (
                f"train_engine.config: zero_optimization.{name} keeps a second form of the weights, which does not follow when the "
                "reference policy takes their place: leave it out, or train without a reference (algorithm.kl.coef: 0)"
            )
            raise UserError(message)
    return settings


def launch(built: Built, options: DeepSpeedConfig, settings: Mapping[str, Any], device: torch.device) -> Launched:
    with in_place(current()):
        inside, shards, engine = _launch(built, options, settings, device)
        return Launched(inside=inside, shards=shards, engine=engine, linear=current())


def _launch(
    built: Built, options: DeepSpeedConfig, settings: Mapping[str, Any], device: torch.device
) -> tuple[Inside, Shards, Any]:
    deepspeed = require_deepspeed(device)
    inside, params = Inside(built.model), list(built.trainable().values())
    if options.zero_stage == 0:
        replicas = Replicas(params, options)
        engine = _initialize(deepspeed, inside, replicas.optimizer, settings) if params else None
        inside.to(device)
        replicas.engine = engine
        return inside, replicas, engine
    if options.zero_stage < 3:
        if not params:
            return inside.to(device), Replicas([], options), None
        engine = _initialize(deepspeed, inside, build_optimizer(options, params), settings)
        return inside, FlatShards(engine, options), engine
    optimizer = build_optimizer(options, params) if params else None
    engine = _initialize(deepspeed, inside, optimizer, settings)
    for weight in built.read_outside():
        deepspeed.zero.register_external_parameter(inside, weight)
    return inside, Partitions(engine, options), engine


def _initialize(deepspeed: Any, inside: Inside, optimizer: Any, settings: Mapping[str, Any]) -> Any:
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):  # its optimizer for bfloat16 prints how full the machine is
        warnings.simplefilter("ignore")  # what DeepSpeed calls of torch is often about to go
        return deepspeed.initialize(model=inside, optimizer=optimizer, config=dict(settings))[0]
