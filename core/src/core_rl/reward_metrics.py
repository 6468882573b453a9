"""What the metrics say of rewards."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from core_rl.data.sample import Group, Sample

SPAN = "reward_span"
"""Key in a sample's metadata: when its rewards began and ended, in seconds of `time.perf_counter`."""


def reward_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Of all samples of some groups. Means are over those that have a value; failures are counted beside them.

    `reward/mean`, `reward/std` (population), `reward/failed` (samples), `reward/zero_std_frac` (groups of two or more scored
    samples whose rewards are all equal, over all such groups), for each reward `reward/<name>/mean` and `…/failed_frac`, and
    `time/reward`: seconds in which any reward was at work, most of them beside the decoding and so within `time/rollout`.
    """
    samples = [sample for group in groups for sample in group.samples]
    if not samples:
        return {}
    rewards = _scored(samples)
    metrics: dict[str, float] = {}
    if rewards:
        metrics |= {"reward/mean": statistics.fmean(rewards), "reward/std": statistics.pstdev(rewards)}
    metrics["reward/failed"] = float(len(samples) - len(rewards))
    comparable = [scored for group in groups if len(scored := _scored(group.samples)) > 1]
    if comparable:
        metrics["reward/zero_std_frac"] = sum(min(scored) == max(scored) for scored in comparable) / len(comparable)
    return (
        metrics
        | _part_metrics(samples)
        | {"time/reward": _seconds_covered(s.metadata[SPAN] for s in samples if SPAN in s.metadata)}
    )


def _scored(samples: Iterable[Sample]) -> list[float]:
    return [sample.reward for sample in samples if sample.reward is not None]


def _part_metrics(samples: Sequence[Sample]) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for name in dict.fromkeys(name for sample in samples for name in sample.reward_parts):
        parts = [sample.reward_parts[name] for sample in samples if name in sample.reward_parts]
        values = [part.value for part in parts if part.value is not None]
        if values:
            metrics[f"reward/{name}/mean"] = statistics.fmean(values)
        metrics[f"reward/{name}/failed_frac"] = 1 - len(values) / len(parts)
    return metrics


def _seconds_covered(spans: Iterable[tuple[float, float]]) -> float:
    """Length of the union of intervals."""
    covered, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        covered += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return covered
