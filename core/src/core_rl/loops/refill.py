"""The samples of one step; with dynamic sampling (DAPO, 2503.14476), as many rounds as it takes to fill the batch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from core_rl.data.packing import pack
from core_rl.errors import DataError
from core_rl.loops.collect import Collected, collect

if TYPE_CHECKING:
    from core_rl.data.sample import Group, Prompt
    from core_rl.loops.feed import PromptFeed
    from core_rl.loops.parts import Parts


async def collect_step(
    parts: Parts, feed: PromptFeed, step: int, *, on_progress: Callable[[int, int], None] = lambda _done, _total: None
) -> Collected:
    """`run.prompts_per_step` groups; fewer when prompts are too long, or when `algorithm.refill` runs out of rounds.

    Raises:
        DataError: too few groups are left after the last round, and `algorithm.refill.when_short` is stop.
    """
    wanted, refill = parts.file.run.prompts_per_step, parts.algorithm.refill

    async def sample(count: int, place: tuple[str | int, ...]) -> Collected:
        return await collect(
            parts,
            feed.next(count),
            n=parts.algorithm.group_size,
            params=parts.file.sampling,
            place=place,
            scorer=parts.scorer,
            greedy=parts.greedy,
            on_progress=on_progress,
        )

    if refill is None:
        return await sample(wanted, (step,))
    kept: list[Group] = []
    sampled: list[Group] = []
    too_long: list[Prompt] = []
    rounds = 0
    while len(kept) < wanted and rounds < refill.max_rounds:
        place = (step,) if rounds == 0 else (step, "refill", rounds)
        found = await sample(math.ceil((wanted - len(kept)) * refill.oversample), place)
        kept += worth_training(parts, found.groups)
        sampled += found.groups
        too_long += found.too_long
        rounds += 1
    metrics = {
        "refill/rounds": float(rounds),
        "refill/sampled_groups": float(len(sampled)),
        "refill/kept_frac": len(kept) / max(1, len(sampled)),
    }
    groups = _filled(kept[:wanted], sampled, wanted, parts=parts, step=step)
    return Collected(groups=groups, too_long=too_long, sampled=sampled, metrics=metrics)


def worth_training(parts: Parts, groups: Sequence[Group]) -> list[Group]:
    """The groups of which the rejections that look at rewards and text leave anything. They see one group at a time."""
    kept = []
    for group in groups:
        scored = [sample for sample in group.samples if sample.reward is not None]
        if not scored:
            continue
        batch = pack([attrs.evolve(group, samples=scored)])
        batch = batch.with_sequences(raw_rewards=batch["rewards"])
        mask = batch.loss_mask
        for rejection in parts.early_rejections:
            mask = mask & rejection(batch.with_loss_mask(mask)).keep
        if mask.any():
            kept.append(group)
    return kept


def _filled(kept: list[Group], sampled: list[Group], wanted: int, *, parts: Parts, step: int) -> list[Group]:
    refill = parts.algorithm.refill
    assert refill is not None
    if len(kept) == wanted:
        return kept
    if refill.when_short == "stop":
        message = (
            f"step {step}: after {refill.max_rounds} rounds {len(kept)} of {wanted} groups are worth training on: raise "
            "algorithm.refill.max_rounds, take harder or easier prompts, or set algorithm.refill.when_short: train"
        )
        raise DataError(message)
    if not kept:
        return sampled[:wanted]  # nothing to learn from; the step still reports what was sampled
    return list(itertools.islice(itertools.cycle(kept), wanted)) if refill.when_short == "repeat" else kept
