"""Registers `fsdp`: a train engine on torch's fully sharded data parallelism, on one rank or many."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_train_engines() -> list[Component]:
    return [
        Component(
            name="fsdp",
            target="core_rl_fsdp.train:FsdpTrainEngine",
            config="core_rl_fsdp.config:FsdpConfig",
            summary="torch FSDP2: weights, gradients and optimizer in shards on every rank",
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
