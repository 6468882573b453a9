"""What core-rl asks of a tokenizer, and how one is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Tokenizer(Protocol):
    """The part of `transformers.PreTrainedTokenizerBase` that core-rl uses."""

    eos_token_id: int | None
    pad_token_id: int | None
    chat_template: Any

    def __len__(self) -> int: ...

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]: ...

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str: ...

    def apply_chat_template(
        self, conversation: Sequence[Mapping[str, str]], *, tokenize: bool, add_generation_prompt: bool
    ) -> Any: ...

    def save_pretrained(self, save_directory: str) -> Any: ...
