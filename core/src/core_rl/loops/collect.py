"""Rollout and reward: prompts in, scored groups out. Rewards are computed as samples finish, beside the decoding."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import attrs

from core_rl.data.sample import Group, Prompt
from core_rl.errors import PromptTooLongError, first_of
from core_rl.seeds import derive

if TYPE_CHECKING:
    from core_rl.loops.parts import Parts
    from core_rl.roles.rollout import SamplingParams
    from core_rl.scoring import Scorer


@attrs.frozen(kw_only=True)
class Collected:
    """Scored groups in the order of their prompts, and the prompts that were too long.

    `sampled` has the groups that dynamic sampling threw away as well.
    """

    groups: list[Group]
    too_long: list[Prompt]
    sampled: list[Group]
    metrics: Mapping[str, float] = attrs.field(factory=dict)


async def collect(
    parts: Parts,
    prompts: Sequence[Prompt],
    *,
    n: int,
    params: SamplingParams,
    place: tuple[str | int, ...],
    scorer: Scorer,
    greedy: bool = False,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Collected:
    """`n` scored samples of every prompt, and a greedy one with `greedy`. `place` (the step, or the evaluation) decides the seeds.

    The first error of any prompt cancels the rest and is raised as it is.
    """
    done = 0

    async def one(index: int, prompt: Prompt) -> Group | None:
        nonlocal done
        run = partial(
            parts.workflow.run,
            prompt,
            engine=parts.rollout,
            tokenizer=parts.tokenizer,
        )
        seed = parts.file.run.seed
        runs = [run(n=n, params=params, seed=derive(seed, "rollout", *place, index))]
        if greedy:  # a seed of its own, since engines know a request by it
            runs.append(run(n=1, params=attrs.evolve(params, temperature=0.0), seed=derive(seed, "greedy", *place, index)))
        try:
            samples, *baselines = await asyncio.gather(*runs)
        except PromptTooLongError:
            if parts.file.run.long_prompts == "stop":
                raise
            return None
        baseline = baselines[0][0] if baselines else None
        to_score = [*samples, baseline] if baseline else samples
        for sample in to_score:
            sample.metadata["max_new_tokens"] = params.max_new_tokens
        await asyncio.gather(*(scorer.score(sample) for sample in to_score))
        done += 1
        on_progress(done, len(prompts))
        return Group(prompt=prompt, samples=samples, greedy=baseline)

    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(one(index, prompt)) for index, prompt in enumerate(prompts)]
    except BaseExceptionGroup as errors:
        raise first_of(errors) from None
    results = [task.result() for task in running]
    groups = [group for group in results if group is not None]
    return Collected(
        groups=groups,
        sampled=groups,
        too_long=[prompt for prompt, group in zip(prompts, results, strict=True) if group is None],
    )
