"""Registers `megatron`: a train engine on megatron-core's GPT model."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_train_engines() -> list[Component]:
    return [
        Component(
            name="megatron",
            target="core_rl_megatron.train:MegatronTrainEngine",
            config="core_rl_megatron.config:MegatronConfig",
            summary="megatron-core: tensor, pipeline, sequence, expert and data parallel",
            provides=frozenset(
                {
                    "old_logprobs",
                    "ref_logprobs",
                    "entropy",
                    "entropy_grad",
                    "gathered_logprobs",
                    "topk_logprobs",
                    "values",
                    "distributed",
                }
            ),
        )
    ]
