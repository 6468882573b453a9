"""Evaluation on held-out prompts: the same rollout and rewards, no learning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from core_rl.data.sample import Group, Prompt
from core_rl.loops.collect import collect
from core_rl.loops.metrics import length_metrics
from core_rl.scoring import reward_metrics

if TYPE_CHECKING:
    from core_rl.loops.parts import Parts


async def evaluate(
    parts: Parts, prompts: Sequence[Prompt], *, on_progress: Callable[[int, int], None] = lambda _done, _total: None
) -> tuple[dict[str, float], list[Group]]:
    """Metrics under `eval/` and the scored groups. Sampling seeds are those of every other evaluation of the run."""
    section = parts.file.eval
    chosen = list(prompts[: section.prompts])
    params = section.sampling.over(parts.file.sampling)
    collected = await collect(
        parts, chosen, n=section.n, params=params, place=("eval",), scorer=parts.eval_scorer, on_progress=on_progress
    )
    scored = {f"eval/{name}": value for name, value in reward_metrics(collected.groups).items()}
    return scored | length_metrics(collected.groups, prefix="eval/"), collected.groups
