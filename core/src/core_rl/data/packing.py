"""From groups of samples to one packed batch. `pack` is the only place where Python lists of tokens become tensors."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import torch

from core_rl.data.batch import PackedBatch
from core_rl.data.binning import first_fit_decreasing, karmarkar_karp
from core_rl.data.check import check_batch
from core_rl.data.micro_batches import group_micro_batches, shared_prefix_lengths, split_into_micro_batches
from core_rl.data.sample import Group, Sample, Turn
from core_rl.errors import DataError

__all__ = [
    "check_batch",
    "first_fit_decreasing",
    "group_micro_batches",
    "karmarkar_karp",
    "pack",
    "shared_prefix_lengths",
    "split_into_micro_batches",
]


@attrs.define
class _Columns:
    """The per-token columns while they grow: values, or (value, length) runs."""

    tokens: list[int] = attrs.field(factory=list)
    logprobs: list[float] = attrs.field(factory=list)
    generated: list[tuple[bool, int]] = attrs.field(factory=list)
    versions: list[tuple[int, int]] = attrs.field(factory=list)
    rewards: dict[int, float] = attrs.field(factory=dict)
    """Of turns, by the index of their last token."""

    def add(self, turn: Turn, sample: Sample) -> None:
        count = len(turn.tokens)
        self.tokens.extend(turn.tokens)
        if turn.reward:
            self.rewards[len(self.tokens) - 1] = turn.reward
        self.generated.append((turn.generated, count))
        if not turn.generated:
            self.logprobs.extend([0.0] * count)
            self.versions.append((-1, count))
            return
        if len(turn.logprobs) != count:
            message = (
                f"prompt {sample.prompt.id}: a generated turn has {count} tokens and {len(turn.logprobs)} log-probabilities"
            )
            raise DataError(message)
        self.logprobs.extend(turn.logprobs)
        end = 0
        for span in turn.versions:
            if not end <= span.start <= span.end <= count:
                message = (
                    f"prompt {sample.prompt.id}: the version span {span} is out of order or beyond the turn's {count} tokens"
                )
                raise DataError(message)
            self.versions += [(-1, span.start - end), (span.version, span.end - span.start)]
            end = span.end
        self.versions.append((-1, count - end))


def pack(groups: Sequence[Group]) -> PackedBatch:
    """One batch of all samples, group by group, in order.

    `loss_mask` is where the policy wrote, without the first token of a sequence, and `generated` the same. Beside the layout the batch
    has rollout_logprobs (0 elsewhere), versions (-1 elsewhere), rewards (NaN: failed, or not scored), group (the index in `groups`) and
    truncated; `rewards/<name>` and `reward_weights/<name>` of each reward; greedy_rewards and turn_rewards where there are any.

    Raises:
        DataError: there is no sample; a sample has no tokens, or log-probabilities that are not one finite number per token.
    """
    samples = [sample for group in groups for sample in group.samples]
    if not samples:
        message = f"there is nothing to pack: {len(groups)} groups without a sample"
        raise DataError(message)
    columns = _Columns()
    ends = [0]
    for sample in samples:
        for turn in sample.turns:
            columns.add(turn, sample)
        ends.append(len(columns.tokens))
        if ends[-1] == ends[-2]:
            message = f"prompt {sample.prompt.id}: a sample has no tokens"
            raise DataError(message)
    cu_seqlens = torch.tensor(ends, dtype=torch.int32)
    mask = _runs(columns.generated, torch.bool).index_fill(0, cu_seqlens[:-1].long(), value=False)
    batch = PackedBatch(
        tokens=torch.tensor(columns.tokens, dtype=torch.int64),
        cu_seqlens=cu_seqlens,
        positions=_positions(cu_seqlens),
        loss_mask=mask,
        token_fields={
            "rollout_logprobs": torch.tensor(columns.logprobs, dtype=torch.float32),
            "versions": _runs(columns.versions, torch.int32),
            "generated": mask,
            **_turn_rewards(columns),
        },
        sequence_fields={
            "rewards": _numbers([sample.reward for sample in samples]),
            **_reward_parts(samples),
            **_greedy_rewards(groups),
            "group": torch.tensor([index for index, group in enumerate(groups) for _ in group.samples], dtype=torch.int64),
            "truncated": torch.tensor([sample.truncated for sample in samples], dtype=torch.bool),
        },
    )
    _check_logprobs(batch, samples)
    return batch


def _numbers(values: Sequence[float | None]) -> torch.Tensor:
    return torch.tensor([float("nan") if value is None else value for value in values], dtype=torch.float32)


def _turn_rewards(columns: _Columns) -> dict[str, torch.Tensor]:
    if not columns.rewards:
        return {}
    rewards = torch.zeros(len(columns.tokens))
    rewards[torch.tensor(list(columns.rewards))] = torch.tensor(list(columns.rewards.values()))
    return {"turn_rewards": rewards}


def _reward_parts(samples: Sequence[Sample]) -> dict[str, torch.Tensor]:
    fields: dict[str, torch.Tensor] = {}
    for name in dict.fromkeys(name for sample in samples for name in sample.reward_parts):
        parts = [sample.reward_parts.get(name) for sample in samples]
        fields[f"rewards/{name}"] = _numbers([None if part is None else part.value for part in parts])
        fields[f"reward_weights/{name}"] = _numbers([part.weight if part else 0.0 for part in parts])
    return fields


def _greedy_rewards(groups: Sequence[Group]) -> dict[str, torch.Tensor]:
    if not any(group.greedy for group in groups):
        return {}
    baselines = [None if group.greedy is None else group.greedy.reward for group in groups for _ in group.samples]
    return {"greedy_rewards": _numbers(baselines)}


def _positions(cu_seqlens: torch.Tensor) -> torch.Tensor:
    """[N] int32: 0, 1, 2, … in each sequence."""
    starts = torch.repeat_interleave(cu_seqlens[:-1], cu_seqlens.long().diff())
    return torch.arange(starts.numel(), dtype=torch.int32) - starts


def _runs(runs: Sequence[tuple[int, int]], dtype: torch.dtype) -> torch.Tensor:
    values, counts = zip(*runs, strict=True)
    return torch.repeat_interleave(torch.tensor(values, dtype=dtype), torch.tensor(counts))


def _check_logprobs(batch: PackedBatch, samples: Sequence[Sample]) -> None:
    bad = (~batch["rollout_logprobs"].isfinite()).nonzero()
    if bad.numel():
        sequence = int(torch.searchsorted(batch.cu_seqlens.long(), bad[0], right=True)) - 1
        where = f"prompt {samples[sequence].prompt.id}, token {int(batch.positions[bad[0]])}"
        value = float(batch["rollout_logprobs"][bad[0]])
        message = f"{where}: the rollout engine gave the log-probability {value}; it must be a finite number"
        raise DataError(message)
