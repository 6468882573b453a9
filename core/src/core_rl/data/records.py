"""Rows of data sets that are more than a prompt: for supervised fine-tuning, preferences and reward models. Torch-free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from core_rl.data.sample import Message, Prompt

Text = str | tuple[Message, ...]
"""A completion: text that follows the prompt as it is, or messages that answer its messages."""


@attrs.frozen(kw_only=True)
class Conversation:
    """One example to imitate: `completion`, and with `prompt` what stands before it. Both are text, or both are messages.

    Without `prompt` the completion is a whole text or conversation.
    """

    id: str
    completion: Text
    prompt: Text | None = None
    metadata: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Pair:
    """Two completions of one prompt, the first one preferred.

    Without `prompt` each side is whole, and what both begin with is the prompt: messages, or tokens of a text. `margin`: by how much
    (reward models). `ref_chosen` and `ref_rejected`: log-probabilities of the completions under a reference policy, summed over tokens.
    """

    id: str
    prompt: Text | None
    chosen: Text
    rejected: Text
    margin: float | None = None
    ref_chosen: float | None = None
    ref_rejected: float | None = None
    metadata: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Labelled:
    """One completion of a prompt, and whether it is a good one. `ref_completion`: as those of `Pair`."""

    id: str
    prompt: Text | None
    completion: Text
    desirable: bool
    ref_completion: float | None = None
    metadata: Mapping[str, Any] = attrs.field(factory=dict)


Row = Prompt | Conversation | Pair | Labelled
ROW_KINDS = ("prompts", "conversations", "pairs", "labelled")
"""The names of the kinds of rows, as data components provide them."""
