"""The toy plugin's components; the defaults of a run file are among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from core_rl.component import Component, hookimpl
from core_rl.kinds import KINDS

_NAMES: dict[str, dict[str, str | None]] = {
    "algorithm": {"grpo": "GrpoConfig"},
    "loss": {"ppo_clip": "PpoClipConfig", "cispo": "CispoConfig"},
    "advantage": {"group": None},
    "aggregation": {"token-mean": None},
    "kl_estimator": {"k1": None, "k3": None},
    "rejection": {"zero_variance": None, "band": "BandConfig"},
    "reward": {"exact": None, "format": "FormatConfig"},
    "train_engine": {"local": "EngineConfig", "fsdp": "EngineConfig", "zoo": "ZooConfig", "bad": "BadConfig"},
    "rollout_engine": {"local": None},
    "weight_transport": {"shared": None},
    "launcher": {"inline": None},
    "data": {"rows": "RowsConfig", "jsonl": "RowsConfig"},
    "workflow": {"single_turn": None},
    "logger": {"console": None, "jsonl": None, "tracker": "TrackerConfig"},
}


def _component(kind: str, name: str, config: str | None) -> Component:
    options: dict[str, Any] = {} if config is None else {"config": f"core_rl_toy.config:{config}"}
    if kind == "train_engine":
        options["provides"] = {"ref_logprobs"}  # the toy algorithm has a KL term
    return Component(name=name, target=f"core_rl_toy.impl:{name.replace('-', '_')}", summary=f"a toy {kind}", **options)


def _registration(kind: str) -> Callable[[], list[Component]]:
    @hookimpl
    def register() -> list[Component]:
        return [_component(kind, name, config) for name, config in _NAMES[kind].items()]

    return register


globals().update({KINDS[kind]: _registration(kind) for kind in _NAMES})
