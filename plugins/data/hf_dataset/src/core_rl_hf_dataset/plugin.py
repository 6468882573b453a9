"""Registers the data source `hf_dataset`."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_data() -> list[Component]:
    return [
        Component(
            name="hf_dataset",
            target="core_rl_hf_dataset.data:HfDatasetData",
            config="core_rl_hf_dataset.config:HfDatasetConfig",
            summary="prompts from Hugging Face datasets, local or from the hub",
        )
    ]
