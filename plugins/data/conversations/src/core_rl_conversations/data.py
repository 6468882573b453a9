"""Conversations and texts to imitate."""

from __future__ import annotations

from collections.abc import Sequence

from core_rl.data.completions import PROMPT_FIELDS, find_field, in_format, need_field, read_text
from core_rl.data.records import Conversation, Text
from core_rl.data.rows import Row
from core_rl.data.sample import Message
from core_rl.data.tables import load_records, row_id
from core_rl.roles.parts import Split
from core_rl_conversations.config import COMPLETION_FIELDS, CONVERSATION_FIELDS, ConversationsConfig


class ConversationsData:
    """Rows {messages}, {text}, or {prompt, completion} of text or of messages, in the order of the data set."""

    def __init__(self, config: ConversationsConfig) -> None:
        self._config = config

    def load(self, split: Split, seed: int) -> Sequence[Conversation]:  # noqa: ARG002 — the data set alone decides
        return load_records(self._config, split, source="conversations", convert=self._convert, asked=_asked)

    def _convert(self, row: Row) -> list[Conversation]:
        config = self._config
        field = need_field(row, config.completion_field, "completion_field", (*CONVERSATION_FIELDS, *COMPLETION_FIELDS))
        whole = config.completion_field is None and field in (*CONVERSATION_FIELDS, "text")
        asked = find_field(row, config.prompt_field, "prompt_field", () if whole else PROMPT_FIELDS)
        prompt, (completion,) = in_format(
            None if asked is None else read_text(row, asked), [read_text(row, field)], config, row.place
        )
        metadata = {name: value for name, value in row.fields.items() if name not in (field, asked)}
        return [Conversation(id=row_id(row, config), prompt=prompt, completion=completion, metadata=metadata)]


def _asked(row: Conversation) -> str | Sequence[Message]:
    """The prompt, of a whole conversation all but its last message."""
    if row.prompt is not None:
        return row.prompt
    content: Text = row.completion
    return content if isinstance(content, str) else content[:-1] or content
