"""The mismatch guard: are sampler and trainer the same policy? It warns, and then ends the run, with the worst sequences in a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import torch

from core_rl.errors import RunError
from core_rl.numerics.mismatch import mismatch_metrics
from core_rl.numerics.segments import segment_sum

if TYPE_CHECKING:
    from core_rl.config.guard import GuardSection
    from core_rl.data.batch import PackedBatch
    from core_rl.roles.train import TrainEngine

_DUMPED = 16
"""So many sequences."""


@attrs.define(kw_only=True)
class MismatchGuard:
    """`folder` is the run's."""

    section: GuardSection
    folder: Path | None
    decode: Any
    """Token ids to text."""
    _warned: set[str] = attrs.field(factory=set)

    def before(self, step: int, batch: PackedBatch, train: TrainEngine) -> dict[str, float]:
        """The metrics of a batch that has log-probabilities of both sides, judged before anything is learnt from it; else none."""
        if not {"old_logprobs", "rollout_logprobs"} <= set(batch.token_fields):
            return {}
        metrics = mismatch_metrics(batch)
        self.judge(step, metrics, batch, train)
        return metrics

    def judge(self, step: int, metrics: Mapping[str, float], batch: PackedBatch, train: TrainEngine) -> None:
        """Raises `RunError` beyond a threshold to stop at."""
        for name, value, limit, stops in self._crossed(metrics):
            words = f"step {step}: sampler and trainer are not the same policy: {name} is {value:.4g}, the limit is {limit:g}"
            if stops:
                where = self._dump(step, batch, train)
                message = f"{words} (guard.{_LIMITS[name][1]}); do both sides have the same weights, precision, temperature and chat template?{where}"
                raise RunError(message)
            if name not in self._warned:
                self._warned.add(name)
                print(f"core-rl: warning: {words} (guard.{_LIMITS[name][0]}); told once", file=sys.stderr)

    def _crossed(self, metrics: Mapping[str, float]) -> Iterator[tuple[str, float, float, bool]]:
        """(metric, value, limit, whether it is one to stop at), the ones to stop at first."""
        for stops in (True, False):
            for name, settings in _LIMITS.items():
                limit, value = getattr(self.section, settings[stops]), metrics.get(name)
                if limit is None or value is None:
                    continue
                if (value < limit) if name == "mismatch/ess" else not value <= limit:  # NaN is beyond
                    yield name, value, limit, stops

    def _dump(self, step: int, batch: PackedBatch, train: TrainEngine) -> str:
        """The sequences that are furthest apart."""
        if self.folder is None:
            return ""
        trained, when = batch.token_fields.get("old_logprobs"), "before the step"
        if trained is None:
            trained, when = train.forward(batch, ["logprobs"])["logprobs"], "after the step"
        distance = (trained - batch["rollout_logprobs"]).abs().nan_to_num(nan=torch.inf).where(batch.loss_mask, 0.0)
        order = segment_sum(distance, batch.cu_seqlens, batch.loss_mask).argsort(descending=True)[:_DUMPED]
        path = self.folder / f"mismatch-step-{step:06d}.jsonl"
        bounds = batch.cu_seqlens.tolist()
        with path.open("w") as out:
            for sequence in order.tolist():
                start, end = bounds[sequence], bounds[sequence + 1]
                written = batch.loss_mask[start:end]
                tokens = batch.tokens[start:end][written]
                row = {
                    "sequence": sequence,
                    "text": self.decode(batch.tokens[start:end].tolist()),
                    "tokens": tokens.tolist(),
                    "rollout_logprobs": batch["rollout_logprobs"][start:end][written].tolist(),
                    "train_logprobs": trained[start:end][written].tolist(),
                    "train_weights": when,
                    "versions": batch["versions"][start:end][written].tolist(),
                }
                out.write(json.dumps(row) + "\n")
        return f" The worst sequences: {path}"


_LIMITS = {
    "mismatch/abs_mean": ("warn_abs_mean", "stop_abs_mean"),
    "mismatch/ess": ("warn_ess", "stop_ess"),
    "mismatch/outside_frac": ("warn_outside", "stop_outside"),
}
"""Settings of the section, to warn and to stop at."""
