"""Every check of rollout engines, in order. Nothing here knows pytest."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import attrs

from core_rl.testing.rollout_engine import checks_control, checks_sampling, checks_weights
from core_rl.testing.rollout_engine.bench import RolloutBench

TOLERANCES = {"float32": 1e-4, "bfloat16": 5e-2}
"""Of log-probabilities, to the model in the same precision by transformers."""


@attrs.frozen(kw_only=True)
class Check:
    """A sentence that holds, and how to see it."""

    run: Callable[[RolloutBench], Coroutine[Any, Any, None]]
    needs: str | None = None
    """A capability; an engine without it is spared."""

    @property
    def about(self) -> str:
        return (self.run.__doc__ or "").strip()


_NEEDS = {
    "processed_logprobs": "processed_logprobs",
    "scoring": "scoring",
    "disk": "weights_disk",
    "delta": "weights_delta",
    "collective": "weights_collective",
}
_SAMPLING = (
    "form",
    "same_seed",
    "alone_or_with_others",
    "logprobs",
    "processed_logprobs",
    "greedy",
    "stop_ids",
    "min_new_tokens",
    "stop_strings",
    "context",
    "many_in_flight",
    "long_prompts",
    "scoring",
)
_CONTROL = ("abort_all", "keep", "retract", "abort_one", "cancelled_request")
_WEIGHTS = ("update", "update_in_parts", "update_in_the_middle", "lost_tensor", "shared_memory", "disk", "delta", "collective")
CHECKS: dict[str, Check] = {
    name: Check(run=getattr(module, name), needs=_NEEDS.get(name))
    for module, names in ((checks_sampling, _SAMPLING), (checks_control, _CONTROL), (checks_weights, _WEIGHTS))
    for name in names
}
"""All of them, in order."""
