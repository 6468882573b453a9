"""Rollout and reward: prompts in, scored groups out. Rewards are computed as samples finish, beside the decoding."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from core_rl.data.sample import Group, Prompt
from core_rl.errors import PromptTooLongError
from core_rl.seeds import derive

if TYPE_CHECKING:
    from core_rl.loops.parts import Parts
    from core_rl.roles.rollout import SamplingParams


@attrs.frozen(kw_only=True)
class Collected:
    """Scored groups in the order of their prompts, and the prompts that were too long."""

    groups: list[Group]
    too_long: list[Prompt]


async def collect(
    parts: Parts,
    prompts: Sequence[Prompt],
    *,
    n: int,
    params: SamplingParams,
    place: tuple[str | int, ...],
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Collected:
    """`n` scored samples of every prompt. `place` (the step, or the evaluation) decides the sampling seeds.

    The first error of any prompt cancels the rest and is raised as it is.
    """
    done = 0

    async def one(index: int, prompt: Prompt) -> Group | None:
        nonlocal done
        try:
            samples = await parts.workflow.run(
                prompt,
                n=n,
                engine=parts.rollout,
                tokenizer=parts.tokenizer,
                params=params,
                seed=derive(parts.file.run.seed, "rollout", *place, index),
            )
        except PromptTooLongError:
            if parts.file.run.long_prompts == "stop":
                raise
            return None
        await asyncio.gather(*(parts.scorer.score(sample) for sample in samples))
        done += 1
        on_progress(done, len(prompts))
        return Group(prompt=prompt, samples=samples)

    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(one(index, prompt)) for index, prompt in enumerate(prompts)]
    except BaseExceptionGroup as errors:
        raise _first(errors) from None
    results = [task.result() for task in running]
    return Collected(
        groups=[group for group in results if group is not None],
        too_long=[prompt for prompt, group in zip(prompts, results, strict=True) if group is None],
    )


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
