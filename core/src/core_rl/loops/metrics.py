"""The canonical metrics of a step that no other part reports: lengths, speed, memory."""

from __future__ import annotations

from collections.abc import Sequence

import psutil

from core_rl.data.sample import Group
from core_rl.roles.train import StepReport


def length_metrics(groups: Sequence[Group], *, prefix: str = "") -> dict[str, float]:
    """`len/completion_*` in tokens, and the share that was cut at the limit."""
    samples = [sample for group in groups for sample in group.samples]
    lengths = [sample.num_generated for sample in samples]
    if not lengths:
        return {}
    return {
        f"{prefix}len/completion_mean": sum(lengths) / len(lengths),
        f"{prefix}len/completion_max": float(max(lengths)),
        f"{prefix}len/prompt_mean": sum(len(sample.tokens) - sample.num_generated for sample in samples) / len(samples),
        f"{prefix}len/truncated_frac": sum(sample.truncated for sample in samples) / len(samples),
    }


def train_metrics(reports: Sequence[StepReport]) -> dict[str, float]:
    """Means over the optimizer steps of one batch; maxima stay maxima; `optim/skipped` counts."""
    if not reports:
        return {"optim/skipped": 0.0, "optim/steps": 0.0}
    names = dict.fromkeys(name for report in reports for name in report.metrics)
    merged = {
        name: (max if name.endswith("_max") else _mean)([r.metrics[name] for r in reports if name in r.metrics])
        for name in names
    }
    return _with_sample_size(merged) | {
        "loss": _mean([report.loss for report in reports]),
        "optim/grad_norm": _mean([report.grad_norm for report in reports]),
        "optim/lr": reports[-1].lr,
        "optim/steps": float(len(reports)),
        "optim/skipped": float(sum(report.skipped for report in reports)),
        "optim/micro_batches": float(sum(report.num_micro_batches for report in reports)),
    }


def _with_sample_size(metrics: dict[str, float]) -> dict[str, float]:
    """`mismatch/ess` = mean(rho)^2 / mean(rho^2), in place of both."""
    mean, square = metrics.pop("mismatch/rho_mean", None), metrics.pop("mismatch/rho_square_mean", None)
    return metrics if mean is None or not square else metrics | {"mismatch/ess": mean**2 / square}


def critic_metrics(reports: Sequence[StepReport]) -> dict[str, float]:
    """The critic's own `critic/loss`, `critic/…`, and `critic/optim/…` as the policy's; nothing without a critic."""
    if not reports:
        return {}
    merged = train_metrics(reports)
    own = {name: merged[name] for name in merged if name.startswith("critic/")}
    shown = ("optim/grad_norm", "optim/lr", "optim/skipped")
    return own | {f"critic/{name}": merged[name] for name in shown}


def speed_metrics(*, tokens: float, seconds: float) -> dict[str, float]:
    """`perf/tok_s`: tokens of the batch (prompts and completions) over the whole step. `perf/host_rss_gb`: of this process."""
    return {"perf/tok_s": tokens / seconds, "perf/host_rss_gb": psutil.Process().memory_info().rss / 1e9}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
