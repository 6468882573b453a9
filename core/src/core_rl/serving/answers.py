"""What servers answer, in our words; and is it what was asked for?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from core_rl.data.sample import FinishReason, VersionSpan
from core_rl.errors import UserError
from core_rl.serving.replica import ServerLostError

if TYPE_CHECKING:
    from core_rl.roles.rollout import Completion, GenerateRequest, ScoreRequest


def finish_reason(word: str, kind: str) -> FinishReason:
    """Raises `ServerLostError` for an end that is none, of a server that is broken."""
    if word not in ("stop", "length", "abort"):
        message = f"{kind} ended a sequence with {word!r}"
        raise ServerLostError(message)
    return cast("FinishReason", word)


def version_number(label: str) -> int | None:
    """None for the weights that the server was started with, and for a label of someone else's."""
    return int(label) if label.isdigit() else None


def version_spans(rows: Iterable[Mapping[str, Any]] | None) -> list[VersionSpan]:
    """Of `weight_versions`, as vLLM and SGLang have them; the weights of the start are version 0."""
    return [VersionSpan(version=version_number(row["version"]) or 0, start=row["start"], end=row["end"]) for row in rows or ()]


def checked(request: GenerateRequest, completions: list[Completion]) -> list[Completion]:
    """The same. Raises `ServerLostError` for an answer that cannot be trained on: half of it, or log-probabilities that are none."""
    if len(completions) != request.n:
        message = f"request {request.id}: {len(completions)} completions for {request.n} that were asked for"
        raise ServerLostError(message)
    for completion in completions:
        count = len(completion.tokens)
        if len(completion.logprobs) != count:
            message = f"request {request.id}: {len(completion.logprobs)} log-probabilities for {count} tokens"
            raise ServerLostError(message)
        if not all(math.isfinite(logprob) and logprob <= 1e-3 for logprob in completion.logprobs):
            message = f"request {request.id}: a log-probability is not finite, or above 0"
            raise ServerLostError(message)
        ends = [0, *(span.end for span in completion.versions)]
        starts = [*(span.start for span in completion.versions), count]
        if starts != ends:
            message = f"request {request.id}: the spans of weight versions do not cover its {count} tokens: {list(completion.versions)}"
            raise ServerLostError(message)
    return completions


def at_temperature_one(request: ScoreRequest, kind: str) -> None:
    """Raises `UserError` for a score that a server cannot give: of given tokens it says log-probabilities before any temperature."""
    if request.temperature != 1.0:
        message = (
            f"rollout_engine: {kind} scores given tokens at temperature 1 alone, and {request.temperature:g} is asked for; "
            "take the rollout engine local, or temperature 1"
        )
        raise UserError(message)
