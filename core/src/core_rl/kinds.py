"""The kinds of component, and the registration hook of each."""

from __future__ import annotations

KINDS: dict[str, str] = {
    "algorithm": "core_rl_algorithms",
    "loss": "core_rl_losses",
    "advantage": "core_rl_advantages",
    "rejection": "core_rl_rejections",
    "reward": "core_rl_rewards",
    "train_engine": "core_rl_train_engines",
    "rollout_engine": "core_rl_rollout_engines",
    "weight_transport": "core_rl_weight_transports",
    "launcher": "core_rl_launchers",
    "data": "core_rl_data",
    "workflow": "core_rl_workflows",
    "logger": "core_rl_loggers",
    "config_importer": "core_rl_config_importers",
}
