"""Which sequences run: requests wait in order, a finished sequence's row is used again at once.

Pure bookkeeping, no tensors but the stashed keys and values of a prompt whose samples do not all run yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import attrs

from core_rl.data.sample import FinishReason, VersionSpan
from core_rl.roles.rollout import Completion, GenerateRequest
from core_rl_local._sampler import Draw

if TYPE_CHECKING:
    import asyncio

    import torch


@attrs.define(eq=False, kw_only=True)
class Job:
    """One request in flight."""

    request: GenerateRequest
    max_new_tokens: int
    end_ids: tuple[int, ...]
    future: asyncio.Future[list[Completion]]
    sequences: list[Sequence_] = attrs.field(factory=list)
    prompt_state: PromptState | None = None
    """Of a prompt that was computed while not all samples had a row; dropped with the last of them."""

    @property
    def done(self) -> bool:
        return all(sequence.finish_reason is not None for sequence in self.sequences)

    def completions(self) -> list[Completion]:
        return [sequence.completion() for sequence in self.sequences]


@attrs.define(eq=False, kw_only=True)
class Sequence_:  # noqa: N801 - `Sequence` is a type of the standard library
    """One sample of a request. `cached` tokens of it have their keys and values in a row."""

    job: Job
    sample: int
    tokens: list[int] = attrs.field(factory=list)
    logprobs: list[float] = attrs.field(factory=list)
    versions: list[int] = attrs.field(factory=list)
    cached: int = 0
    finish_reason: FinishReason | None = None

    @property
    def longest(self) -> int:
        """Tokens that it may come to."""
        return len(self.job.request.prompt_ids) + self.job.max_new_tokens

    @property
    def prefix(self) -> list[int]:
        """What has to be computed before the next token can be sampled."""
        return [*self.job.request.prompt_ids, *self.tokens]

    def draw(self) -> Draw:
        request = self.job.request
        return Draw(
            params=request.params, seed=request.seed, sample=self.sample, generated=self.tokens, end_ids=self.job.end_ids
        )

    def completion(self) -> Completion:
        assert self.finish_reason is not None
        spans, start = [], 0
        for version, run in groupby(self.versions):
            end = start + len(list(run))
            spans.append(VersionSpan(version=version, start=start, end=end))
            start = end
        return Completion(tokens=self.tokens, logprobs=self.logprobs, finish_reason=self.finish_reason, versions=spans)


@attrs.frozen(kw_only=True, eq=False)
class PromptState:
    """Keys, values and last logits of a prompt."""

    stash: Sequence[torch.Tensor]
    logits: torch.Tensor


@attrs.define(eq=False)
class Scheduler:
    """`running[r]` is the sequence in row r of the cache."""

    max_running: int
    max_cells: float = float("inf")
    """Places for tokens in the cache. Every row is as long as the longest may become."""
    waiting: deque[Sequence_] = attrs.field(factory=deque)
    running: list[Sequence_] = attrs.field(factory=list)

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.running)

    def submit(self, job: Job) -> None:
        job.sequences = [Sequence_(job=job, sample=sample) for sample in range(job.request.n)]
        self.waiting.extend(job.sequences)

    def admit(self, max_tokens: int) -> list[list[Sequence_]]:
        """Sequences that get rows now, in order, put together where they continue the same tokens of the same request.

        They are in `running` afterwards. At most `max_tokens` are to be computed, but at least one prompt.
        """
        admitted: list[list[Sequence_]] = []
        budget = max_tokens
        longest = max((running.longest for running in self.running), default=0)
        while self.waiting and len(self.running) < self.max_running:
            sequence = self.waiting[0]
            longest = max(longest, sequence.longest)
            if self.running and (len(self.running) + 1) * longest > self.max_cells:
                break
            together = bool(admitted) and _same_prefix(admitted[-1][0], sequence)
            cost = 0 if together or sequence.job.prompt_state is not None else len(sequence.prefix)
            if cost > budget and admitted:
                break
            budget -= cost
            self.waiting.popleft()
            self.running.append(sequence)
            if together:
                admitted[-1].append(sequence)
            else:
                admitted.append([sequence])
        return admitted

    def remove_finished(self, move: Callable[[int, int, int], Any]) -> list[Job]:
        """Take finished sequences out of `running`, filling their rows from the end; the jobs that are done with it.

        `move(source, target, cached)` moves the keys and values.
        """
        touched: dict[int, Job] = {}
        for row in range(len(self.running) - 1, -1, -1):
            sequence = self.running[row]
            if sequence.finish_reason is None:
                continue
            touched[id(sequence.job)] = sequence.job
            last = self.running.pop()
            if last is not sequence:
                self.running[row] = last
                move(len(self.running), row, last.cached)
        return [job for job in touched.values() if job.done]

    def abort(self, chosen: Callable[[Job], bool]) -> list[Job]:
        """End the chosen jobs' sequences where they stand. Running ones keep their rows until `remove_finished`."""
        ended: dict[int, Job] = {}
        for sequence in (*self.waiting, *self.running):
            if chosen(sequence.job) and sequence.finish_reason is None:
                sequence.finish_reason = "abort"
                ended[id(sequence.job)] = sequence.job
        self.waiting = deque(sequence for sequence in self.waiting if sequence.finish_reason is None)
        return list(ended.values())

    def retract(self) -> None:
        """Everything that runs waits again, at the front, and is computed anew from its tokens."""
        for sequence in self.running:
            sequence.cached = 0
            sequence.job.prompt_state = None
        for sequence in self.waiting:
            sequence.job.prompt_state = None
        self.waiting.extendleft(reversed([s for s in self.running if s.finish_reason is None]))
        self.running = []


def _same_prefix(one: Sequence_, other: Sequence_) -> bool:
    return one.job is other.job and one.tokens == other.tokens
