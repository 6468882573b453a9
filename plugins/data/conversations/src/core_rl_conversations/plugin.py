"""Registers the data source `conversations`."""

from __future__ import annotations

from core_rl import Component, hookimpl


@hookimpl
def core_rl_data() -> list[Component]:
    return [
        Component(
            name="conversations",
            target="core_rl_conversations.data:ConversationsData",
            config="core_rl_conversations.config:ConversationsConfig",
            summary="conversations and texts to imitate, from files and data sets",
            provides=frozenset({"conversations"}),
        )
    ]
