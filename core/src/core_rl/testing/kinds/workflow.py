"""Checks of workflows: `core_rl.roles.parts.Workflow`, with the rollout engine `local` and a tiny random model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs

from core_rl.data.check import check_batch
from core_rl.data.packing import pack
from core_rl.data.sample import Group, Prompt, Sample
from core_rl.errors import DataError, PromptTooLongError
from core_rl.hf.tokenizer import load_tokenizer
from core_rl.roles.rollout import SamplingParams
from core_rl.testing.kit.check import UnmetError, checks, expect, shown
from core_rl.testing.rollout_engine.bench import MODEL, RolloutBench

if TYPE_CHECKING:
    from core_rl.roles.rollout import Completion, GenerateRequest
    from core_rl.testing.kit.subject import Subject

PROMPTS = (Prompt(id="0", text="1+2=", answer="3"), Prompt(id="1", text="14+25=", answer="39"))
"""Where a test class gives none of its own."""
PARAMS = SamplingParams(max_new_tokens=12, temperature=3.0)
"""Warm: the tiny model is so sure of itself that all its samples would be the same."""
LIMIT_S = 60.0
TOLERANCE = 1e-3


def samples(subject: Subject) -> None:
    """It gives as many samples of the prompt as are asked for, each with an end and a text."""
    for n in (1, 4):
        for prompt in _prompts(subject):
            found: Any = _run(subject, prompt, n=n)
            expect(isinstance(found, list) and len(found) == n, f"n={n} gave {shown(found)}, expected a list of {n} samples")
            for one in found:
                expect(isinstance(one, Sample), f"it gave {shown(one)}, expected a core_rl.data.sample.Sample")
                expect(one.prompt == prompt, f"a sample is of {shown(one.prompt)}, and {shown(prompt)} was asked for")
                expect(one.finish_reason in ("stop", "length", "abort"), f"finish_reason is {one.finish_reason!r}")
                expect(isinstance(one.completion_text, str), f"completion_text is {shown(one.completion_text)}, expected text")


def turns(subject: Subject) -> None:
    """What the policy wrote has a log-probability and a version for every token; what it was given has neither."""
    for one in _some(subject):
        _expect_turns(one)
        expect(one.num_generated > 0, "a sample has no token that the policy wrote")
        expect(not one.turns[0].generated, "the first turn is the policy's; nothing stands before its first token")


def logprobs(subject: Subject) -> None:
    """A written token's log-probability is the model's, given the very tokens that stand before it: nothing was encoded again."""
    bench = _bench(subject)
    for one in _some(subject):
        before: list[int] = []
        for turn in one.turns:
            if turn.generated and turn.tokens:
                expected = bench.logprobs(before, turn.tokens, PARAMS)
                worst = max(abs(mine - theirs) for mine, theirs in zip(turn.logprobs, expected, strict=True))
                words = f"log-probabilities are {worst:.3g} away from the model's after the sample's own tokens, {TOLERANCE:g} is allowed"
                expect(worst <= TOLERANCE, words)
            before += turn.tokens


def packs(subject: Subject) -> None:
    """Its samples become a sound batch, in which the tokens that the policy wrote are those to learn from."""
    prompts = _prompts(subject)
    groups = [Group(prompt=prompt, samples=_run(subject, prompt, n=2)) for prompt in prompts]
    for group in groups:
        for one in group.samples:
            one.reward = 1.0
    batch = pack(groups)
    check_batch(batch)
    written = sum(one.num_generated for group in groups for one in group.samples)
    found = int(batch.loss_mask.sum())
    expect(found == written, f"the policy wrote {written} tokens, and {found} are in loss_mask")


def same_seed(subject: Subject) -> None:
    """The same seed gives the same samples, also beside other prompts; samples of one prompt, and other seeds, differ."""
    prompts = _prompts(subject)
    alone = [[one.tokens for one in _run(subject, prompt, n=4)] for prompt in prompts]
    together = _together(subject, prompts)
    expect(alone == together, "the same seed gives other samples when other prompts are sampled at the same time")
    other = [one.tokens for one in _run(subject, prompts[0], n=4, seed=99)]
    expect(other != alone[0], "another seed gives the same samples: `seed` is not handed on")
    expect(len({tuple(tokens) for tokens in alone[0]}) > 1, "four samples of a prompt are all the same: they share one seed")


def aborted(subject: Subject) -> None:
    """A completion that is taken back half-way ends its sample, without an endless number of requests."""
    engine = Watched(_bench(subject).engine, cuts=True)
    found = _run(subject, _prompts(subject)[0], n=2, engine=engine)
    expect(len(found) == 2, f"n=2 gave {len(found)} samples")
    expect(engine.calls <= 64, f"it made {engine.calls} requests after completions were taken back")
    for one in found:
        _expect_turns(one)
        expect(
            one.finish_reason != "stop",
            "a completion that was taken back is reported as finished (finish_reason stop), expected abort",
        )


def cancelled(subject: Subject) -> None:
    """Cancelling it ends it at once: a run that stops does not wait for samples."""

    async def cancel() -> bool:
        task = asyncio.ensure_future(_work(subject, _prompts(subject)[0], engine=Watched(None, hang=True)))
        await asyncio.sleep(0.2)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=5.0)
        return bool(done) and task.cancelled()

    expect(_bench(subject).run(cancel()), "it goes on after it was cancelled; let CancelledError through")


def too_long(subject: Subject) -> None:
    """A prompt that leaves no room raises `PromptTooLongError`, as the engine says: the run then leaves it out."""
    try:
        _run(subject, _prompts(subject)[0], engine=Watched(None, too_long=True))
    except PromptTooLongError:
        return
    except DataError as error:
        message = f"it raised {type(error).__name__}, expected PromptTooLongError to go through"
        raise UnmetError(message) from error
    expect(holds=False, words="samples came back where the engine had no room for the prompt; expected PromptTooLongError")


def use(subject: Subject) -> None:
    """Two samples."""
    _run(subject, _prompts(subject)[0], n=2)


@attrs.define(eq=False)
class Watched:
    """The engine, or one that answers as badly as an engine may."""

    engine: Any
    cuts: bool = attrs.field(default=False, kw_only=True)
    hang: bool = attrs.field(default=False, kw_only=True)
    too_long: bool = attrs.field(default=False, kw_only=True)
    calls: int = attrs.field(default=0, init=False)

    async def generate(self, request: GenerateRequest) -> list[Completion]:
        self.calls += 1
        if self.hang:
            await asyncio.Event().wait()
        if self.too_long:
            message = f"prompt {request.id}: no room"
            raise PromptTooLongError(message)
        completions: list[Completion] = await self.engine.generate(request)
        return [_cut(one) for one in completions] if self.cuts else completions

    async def abort(self, request_id: str) -> None:
        if self.engine is not None:
            await self.engine.abort(request_id)

    def stats(self) -> dict[str, float]:
        return {}


def _cut(one: Completion) -> Completion:
    """The first two tokens, and then it was taken back."""
    spans = [attrs.evolve(span, end=min(span.end, 2)) for span in one.versions if span.start < 2]
    return attrs.evolve(one, tokens=one.tokens[:2], logprobs=one.logprobs[:2], finish_reason="abort", versions=spans)


def _expect_turns(one: Sample) -> None:
    for place, turn in enumerate(one.turns):
        count = len(turn.tokens) if turn.generated else 0
        words = f"turn {place} has {len(turn.logprobs)} log-probabilities, expected {count}"
        expect(len(turn.logprobs) == count, f"{words}: one for each token that the policy wrote")
        covered = [token for span in turn.versions for token in range(span.start, span.end)]
        words = f"the versions of turn {place} cover {shown(covered)}, expected every one of {count} tokens once, in order"
        expect(not turn.generated or covered == list(range(count)), words)


def _prompts(subject: Subject) -> Sequence[Prompt]:
    given: Sequence[Prompt] = subject.given.get("prompts") or PROMPTS
    return given


def _some(subject: Subject) -> list[Sample]:
    return [one for prompt in _prompts(subject) for one in _run(subject, prompt, n=2)]


def _run(subject: Subject, prompt: Prompt, **about: Any) -> list[Sample]:
    found: list[Sample] = _bench(subject).run(asyncio.wait_for(_work(subject, prompt, **about), LIMIT_S))
    return found


def _together(subject: Subject, prompts: Sequence[Prompt]) -> list[list[list[int]]]:
    async def all_of_them() -> list[list[Sample]]:
        return list(await asyncio.gather(*(_work(subject, prompt, n=4) for prompt in prompts)))

    return [[one.tokens for one in found] for found in _bench(subject).run(all_of_them())]


async def _work(subject: Subject, prompt: Prompt, *, n: int = 1, engine: Any = None, seed: int = 5) -> list[Sample]:
    bench, tokenizer = subject.keep(_model)
    found: list[Sample] = await subject.build().run(
        prompt, n=n, engine=engine or bench.engine, tokenizer=tokenizer, params=PARAMS, seed=seed
    )
    return found


def _bench(subject: Subject) -> RolloutBench:
    return subject.keep(_model)[0]


@contextmanager
def _model(subject: Subject) -> Iterator[tuple[RolloutBench, Any]]:
    del subject
    bench = RolloutBench(engine_name="local", options={}, dtype="float32", logprob_tolerance=TOLERANCE)
    try:
        yield bench.open(), load_tokenizer(MODEL)
    finally:
        bench.close()


CHECKS = checks(samples, turns, logprobs, packs, same_seed, aborted, cancelled, too_long)
