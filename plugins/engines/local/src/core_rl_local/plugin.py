"""Registers `local`: a train engine and a rollout engine on Hugging Face transformers, in one process."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_train_engines() -> list[Component]:
    return [
        Component(
            name="local",
            target="core_rl_local.train:LocalTrainEngine",
            config="core_rl_local.config:LocalTrainConfig",
            summary="transformers in this process, on the CPU or one CUDA device",
            provides=frozenset(
                {
                    "old_logprobs",
                    "ref_logprobs",
                    "entropy",
                    "entropy_grad",
                    "gathered_logprobs",
                    "topk_logprobs",
                    "values",
                    "packing",
                    "prefix_sharing",
                    "shared_weights",
                    "lora",
                }
            ),
        )
    ]


@hookimpl
def core_rl_rollout_engines() -> list[Component]:
    return [
        Component(
            name="local",
            target="core_rl_local.rollout:LocalRolloutEngine",
            config="core_rl_local.config:LocalRolloutConfig",
            summary="transformers in this process with continuous batching, on the trainer's own weights",
            provides=frozenset(
                {
                    "rollout_logprobs",
                    "processed_logprobs",
                    "scoring",
                    "shared_weights",
                    "weights_disk",
                    "weights_delta",
                    "lora",
                }
            ),
        )
    ]
