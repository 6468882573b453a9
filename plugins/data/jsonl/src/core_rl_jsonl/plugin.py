"""Registers the data source `jsonl`."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_data() -> list[Component]:
    return [
        Component(
            name="jsonl",
            target="core_rl_jsonl.data:JsonlData",
            config="core_rl_jsonl.config:JsonlConfig",
            summary="prompts from JSON Lines files, plain or .gz",
        )
    ]
