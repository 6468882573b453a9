"""The model's part of a rollout: prefill and decode steps over a `SlotCache`, and a token for every running sequence."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs
import torch

from core_rl_local._decode import slot_attention
from core_rl_local._sampler import sample
from core_rl_local._scheduler import Job, PromptState, Scheduler, Sequence_
from core_rl_local._slots import Segment, SlotCache
from core_rl_local._stops import finish_reason

if TYPE_CHECKING:
    from core_rl.hf.tokenizer import Tokenizer


@attrs.define
class Counters:
    """Since the last report."""

    tokens: int = 0
    prefill_tokens: int = 0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    decode_steps: int = 0
    decode_rows: int = 0


class Generator:
    """One `step` admits what waits, then decodes one token of everything that runs. Called from one thread at a time."""

    def __init__(self, module: Any, scheduler: Scheduler, tokenizer: Tokenizer | None, *, max_prefill_tokens: int) -> None:
        self.module = module
        self.scheduler = scheduler
        self.tokenizer = tokenizer
        self.max_prefill_tokens = max_prefill_tokens
        self.cache = SlotCache()
        self.counters = Counters()

    def step(self, version: int) -> list[Job]:
        """The jobs that are done with it."""
        self.module.eval()
        with torch.inference_mode(), slot_attention(self.module, self.cache):
            done = self.scheduler.remove_finished(self.cache.move)  # what was aborted since the last step
            running = len(self.scheduler.running)
            for admitted in self._admissions():
                self._prefill(admitted, version)
            done += self.scheduler.remove_finished(self.cache.move) if len(self.scheduler.running) > running else []
            if self.scheduler.running:
                self._decode(version)
                done += self.scheduler.remove_finished(self.cache.move)
        if not self.scheduler.busy and self.module.device.type == "cuda":
            self.cache.release()  # training wants the memory; on a CPU touching new pages costs more than keeping them
        return done

    def _admissions(self) -> list[list[list[Sequence_]]]:
        """Prefills to do, each within the budget of tokens."""
        prefills = []
        while admitted := self.scheduler.admit(self.max_prefill_tokens):
            prefills.append(admitted)
        return prefills

    def _prefill(self, admitted: list[list[Sequence_]], version: int) -> None:
        """Prompts in one packed row; a prompt is computed once for all of its samples."""
        begin = time.perf_counter()
        row = self.scheduler.running.index(admitted[0][0])
        segments, fresh, known = [], [], []
        tokens: list[int] = []
        for members in admitted:
            if members[0].job.prompt_state is not None and not members[0].tokens:
                known.append((row, members))
            else:
                prefix = members[0].prefix
                segments.append(Segment(start=len(tokens), end=len(tokens) + len(prefix), row=row, copies=len(members)))
                fresh.append(members)
                tokens += prefix
            row += len(members)
        if fresh:
            logits = self._compute(tokens, segments)
            self._keep_for_later(fresh, segments, logits)
            repeats = torch.tensor([len(members) for members in fresh], device=logits.device)
            self._take(logits.repeat_interleave(repeats, 0), [s for members in fresh for s in members], version)
        for first_row, members in known:
            self._from_stash(first_row, members, version)
        self.counters.prefill_tokens += len(tokens)
        self.counters.prefill_s += time.perf_counter() - begin

    def _compute(self, tokens: list[int], segments: Sequence[Segment]) -> torch.Tensor:
        """[segments, V]: logits of each segment's last token."""
        device = self.module.device
        positions = torch.cat([torch.arange(part.end - part.start) for part in segments])
        last = torch.tensor([part.end - 1 for part in segments], device=device)
        self.cache.prefill(segments)
        output = self.module(
            input_ids=torch.tensor([tokens], device=device),
            position_ids=positions[None].to(device),
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=last,
        )
        logits: torch.Tensor = output.logits[0]
        return logits

    def _keep_for_later(self, fresh: list[list[Sequence_]], segments: Sequence[Segment], logits: torch.Tensor) -> None:
        """For the prompts that have samples without a row yet, and mark what the new rows hold."""
        waiting = {id(sequence.job) for sequence in self.scheduler.waiting if not sequence.tokens}
        for members, part, last in zip(fresh, segments, logits, strict=True):
            for sequence in members:
                sequence.cached = part.end - part.start
            job = members[0].job
            if id(job) in waiting and not members[0].tokens:
                stash = self.cache.copy_out(part.row, part.end - part.start)
                job.prompt_state = PromptState(stash=stash, logits=last.clone())

    def _from_stash(self, row: int, members: list[Sequence_], version: int) -> None:
        job = members[0].job
        state = job.prompt_state
        assert state is not None
        for offset, sequence in enumerate(members):
            self.cache.copy_in(row + offset, state.stash)
            sequence.cached = len(job.request.prompt_ids)
        self._take(state.logits.expand(len(members), -1).clone(), members, version)
        if not any(sequence.job is job for sequence in self.scheduler.waiting):
            job.prompt_state = None

    def _decode(self, version: int) -> None:
        begin = time.perf_counter()
        device = self.module.device
        running = self.scheduler.running
        lengths = [sequence.cached for sequence in running]
        self.cache.decode(lengths, device)
        output = self.module(
            input_ids=torch.tensor([[sequence.tokens[-1]] for sequence in running], device=device),
            position_ids=torch.tensor(lengths, device=device)[:, None],
            past_key_values=self.cache,
            use_cache=True,
        )
        for sequence in running:
            sequence.cached += 1
        self._take(output.logits[:, -1], running, version)
        self.counters.decode_steps += 1
        self.counters.decode_rows += len(running)
        self.counters.decode_s += time.perf_counter() - begin

    def _take(self, logits: torch.Tensor, sequences: Sequence[Sequence_], version: int) -> None:
        """Sample the next token of each sequence from its row of logits [R, V]."""
        tokens, logprobs = sample(logits, [sequence.draw() for sequence in sequences])
        for sequence, token, logprob in zip(sequences, tokens, logprobs, strict=True):
            sequence.tokens.append(token)
            sequence.logprobs.append(logprob)
            sequence.versions.append(version)
            sequence.finish_reason = finish_reason(sequence, self.tokenizer)
        self.counters.tokens += len(sequences)
