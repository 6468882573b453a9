"""The kinds of component: the registration hook of each, and the contract that its targets follow."""

from __future__ import annotations

KINDS: dict[str, str] = {
    "algorithm": "core_rl_algorithms",
    "loss": "core_rl_losses",
    "advantage": "core_rl_advantages",
    "normaliser": "core_rl_normalisers",
    "aggregation": "core_rl_aggregations",
    "kl_estimator": "core_rl_kl_estimators",
    "rejection": "core_rl_rejections",
    "resampler": "core_rl_resamplers",
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

ROLES: dict[str, str] = {
    "loss": "core_rl.roles.scoring:Loss",
    "advantage": "core_rl.roles.scoring:Advantage",
    "normaliser": "core_rl.roles.scoring:Normaliser",
    "aggregation": "core_rl.roles.train:Aggregation",
    "kl_estimator": "core_rl.roles.scoring:KlEstimator",
    "rejection": "core_rl.roles.scoring:Rejection",
    "resampler": "core_rl.roles.scoring:Resampler",
    "reward": "core_rl.roles.scoring:Reward",
    "train_engine": "core_rl.roles.train:TrainEngine",
    "rollout_engine": "core_rl.roles.rollout:RolloutEngine",
    "weight_transport": "core_rl.roles.parts:WeightTransport",
    "launcher": "core_rl.roles.parts:Launcher",
    "data": "core_rl.roles.parts:Data",
    "workflow": "core_rl.roles.parts:Workflow",
    "logger": "core_rl.roles.parts:Logger",
    "config_importer": "core_rl.roles.parts:ConfigImporter",
}
"""The protocol of each kind. An algorithm has none: its target is its options class."""
