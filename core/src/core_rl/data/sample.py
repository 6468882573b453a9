"""What flows between the stages before packing: prompts, samples and groups. Torch-free.

Token ids in, token ids out: nothing here is decoded and encoded again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

FinishReason = Literal["stop", "length", "abort"]
"""`stop`: an end-of-sequence token, stop id or stop string. `length`: cut at the limit (truncated). `abort`: taken back."""

Message = Mapping[str, str]
"""One chat message: `role` and `content`."""


@attrs.frozen(kw_only=True)
class Prompt:
    """One row of a data set. Exactly one of `messages` and `text` is given.

    `answer` is the reference answer for the rewards; `metadata` is whatever else the data set has.
    """

    id: str
    messages: tuple[Message, ...] | None = None
    text: str | None = None
    answer: Any = None
    metadata: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class VersionSpan:
    """Tokens `[start, end)` of a completion were written by weights of this version."""

    version: int
    start: int
    end: int


@attrs.frozen(kw_only=True)
class Turn:
    """A run of consecutive tokens of one sequence: written by the policy (`generated`) or given to it.

    `logprobs` has one value for each generated token, of the distribution really sampled from; it is empty otherwise.
    `reward` is what an environment gave for this turn, beside the reward of the whole sample.
    """

    tokens: Sequence[int]
    generated: bool
    logprobs: Sequence[float] = ()
    versions: Sequence[VersionSpan] = ()
    reward: float = 0.0


@attrs.define(kw_only=True)
class RewardPart:
    """What one reward said of one sample. `value` is None when it failed; `error` then says why."""

    value: float | None
    weight: float
    error: str | None = None
    info: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.define(kw_only=True)
class Sample:
    """One episode: the token sequence, its turns, and what was made of it.

    `reward` is the weighted sum of the parts, None until scored and None when it failed (a state, not 0).
    """

    prompt: Prompt
    turns: Sequence[Turn]
    finish_reason: FinishReason
    completion_text: str
    prompt_text: str = ""
    reward: float | None = None
    reward_parts: dict[str, RewardPart] = attrs.field(factory=dict)
    metadata: dict[str, Any] = attrs.field(factory=dict)

    @property
    def tokens(self) -> list[int]:
        return [token for turn in self.turns for token in turn.tokens]

    @property
    def num_generated(self) -> int:
        return sum(len(turn.tokens) for turn in self.turns if turn.generated)

    @property
    def truncated(self) -> bool:
        return self.finish_reason == "length"


@attrs.define(kw_only=True)
class Group:
    """The samples of one prompt; and a greedy one, where an advantage takes its reward as the baseline."""

    prompt: Prompt
    samples: list[Sample]
    greedy: Sample | None = None
