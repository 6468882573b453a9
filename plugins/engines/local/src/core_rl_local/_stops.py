"""When a sequence is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.data.sample import FinishReason

if TYPE_CHECKING:
    from core_rl.hf.tokenizer import Tokenizer
    from core_rl_local._scheduler import Sequence_


def finish_reason(sequence: Sequence_, tokenizer: Tokenizer | None) -> FinishReason | None:
    """After a new token: `stop` at an end id or a stop string, `length` at the limit, None to go on."""
    params = sequence.job.request.params
    if sequence.tokens[-1] in sequence.job.end_ids:
        return "stop"
    if params.stop and len(sequence.tokens) > params.min_new_tokens and tokenizer is not None:
        # a token may be one byte of a character: so many tokens hold every text that ends with the newest one
        window = 4 * max(len(text.encode()) for text in params.stop) + 8
        tail = tokenizer.decode(sequence.tokens[-window:])
        if any(text in tail for text in params.stop):
            return "stop"
    return "length" if len(sequence.tokens) >= sequence.job.max_new_tokens else None
