"""Samples as a workflow makes them, for tests of rewards."""

from __future__ import annotations

from typing import Any

from core_rl.data.sample import FinishReason, Prompt, Sample, Turn, VersionSpan

MAX_NEW_TOKENS = 64
"""The longest completion of the run, which every sample is told of."""


def sample(
    completion: str, *, answer: Any = None, prompt: str = "2+3=", finish_reason: FinishReason = "stop", **metadata: Any
) -> Sample:
    """One prompt and one completion, a token for each character. `metadata` is the prompt's, as the data set has it."""
    written = tuple(ord(character) % 50 for character in completion)
    span = (VersionSpan(version=1, start=0, end=len(written)),) if written else ()
    return Sample(
        prompt=Prompt(id="0", text=prompt, answer=answer, metadata=metadata),
        turns=[
            Turn(tokens=tuple(ord(character) % 50 for character in prompt), generated=False),
            Turn(tokens=written, generated=True, logprobs=(-0.5,) * len(written), versions=span),
        ],
        finish_reason=finish_reason,
        completion_text=completion,
        prompt_text=prompt,
        metadata={"max_new_tokens": MAX_NEW_TOKENS},
    )
