"""What core-rl adds to SGLang, in every process of a server that `core_rl_sglang.serve` has started.

SGLang finds `register` by its entry points (group `sglang.srt.plugins`), also in servers that have nothing to do with core-rl: there it
does nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from core_rl_sglang import _draw, _worker

SWITCH = "CORE_RL_SGLANG"
HOOKS: Mapping[str, Callable[..., Any]] = {
    "sglang.srt.sampling.sampling_batch_info.SamplingBatchInfo.from_schedule_batch": _draw.with_seeds,
    "sglang.srt.layers.sampler.Sampler._sample_from_probs": _draw.sample,
    "sglang.srt.managers.schedule_batch.Req._check_token_based_finish": _draw.stops,
    "sglang.srt.managers.tp_worker.BaseTpWorker.get_weights_by_name": _worker.answer,
    "sglang.srt.model_executor.model_runner_components.weight_updater.WeightUpdater.update_weights_from_tensor": _worker.load,
}
"""Around which functions of SGLang 0.5.23 it stands."""


def register() -> None:
    if os.environ.get(SWITCH) != "1":
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for target, hook in HOOKS.items():
        HookRegistry.register(target, hook, HookType.AROUND)


def missing_hooks() -> list[str]:
    """SGLang logs a hook that it cannot place, and goes on."""
    from sglang.srt.plugins.hook_registry import HookRegistry

    return [target for target in HOOKS if target not in HookRegistry._patched]  # noqa: SLF001 - the only list of them
