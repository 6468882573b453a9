"""Options of the data source `conversations`."""

from __future__ import annotations

import attrs

from core_rl.data.completions import PROMPT_FIELDS
from core_rl.data.tables import TableOptions

CONVERSATION_FIELDS = ("messages", "conversations")
COMPLETION_FIELDS = ("completion", "response", "answer", "output", "text")


@attrs.frozen(kw_only=True)
class ConversationsConfig(TableOptions):
    """Which rows, and which of their fields. Where they come from is said by `TableOptions`."""

    prompt_field: str | None = attrs.field(
        default=None, metadata={"help": "what is not learnt; null: the first of " + ", ".join(PROMPT_FIELDS) + ", if any"}
    )
    completion_field: str | None = attrs.field(
        default=None,
        metadata={
            "help": "what is learnt; null: the first of "
            + ", ".join((*CONVERSATION_FIELDS, *COMPLETION_FIELDS))
            + "; of the first two and the last one no prompt is read"
        },
    )
