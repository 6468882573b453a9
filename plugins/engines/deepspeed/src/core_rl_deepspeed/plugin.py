"""Registers `deepspeed`: a train engine on DeepSpeed's ZeRO, on one rank or many."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_train_engines() -> list[Component]:
    return [
        Component(
            name="deepspeed",
            target="core_rl_deepspeed.train:DeepSpeedTrainEngine",
            config="core_rl_deepspeed.config:DeepSpeedConfig",
            summary="DeepSpeed ZeRO 0 to 3: optimizer, gradients and weights in shards, on the CPU if there is too little room",
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
                    "distributed",
                    "lora",
                }
            ),
        )
    ]
