"""A user's own function of a sequence, true to train on it.

rejections: [{name: accept_if, function: "my_filters:not_too_easy"}]

def not_too_easy(sequence):
return sum(sequence.group_rewards) / len(sequence.group_rewards) < 0.9
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import torch

from core_rl.errors import UserError
from core_rl.numerics.segments import broadcast, segment_count
from core_rl.plugins.references import load_reference
from core_rl.roles.scoring import Verdict
from core_rl_rejections._report import dropped

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_rejections.config import AcceptIfConfig


@attrs.frozen(kw_only=True)
class SequenceFacts:
    """What the function is told of a sequence. A reward that failed is NaN."""

    reward: float
    rewards: Mapping[str, float]
    """Each entry of the run's rewards, without its weight."""
    group_rewards: Sequence[float]
    """The rewards of all samples of the same prompt, this one included."""
    length: int
    """Generated tokens."""
    truncated: bool
    tokens: Sequence[int]
    """The whole sequence, prompt included."""


class AcceptIf:
    """A rejection."""

    def __init__(self, options: AcceptIfConfig) -> None:
        self.name = options.function
        function: Any = load_reference(options.function)
        if not callable(function):
            message = f"algorithm.rejections: accept_if.function: {options.function} is {function!r}, expected a function"
            raise UserError(message)
        self.function: Callable[[SequenceFacts], Any] = function

    def __call__(self, batch: PackedBatch) -> Verdict:
        accepted = torch.tensor([self._asked(one) for one in facts(batch)], dtype=torch.bool, device=batch.tokens.device)
        keep = broadcast(accepted, batch.cu_seqlens, batch.num_tokens)
        return Verdict(keep=keep, metrics=dropped("accept_if", keep, batch.loss_mask))

    def _asked(self, sequence: SequenceFacts) -> bool:
        try:
            answer = self.function(sequence)
        except Exception as error:  # the user's code raises what it likes
            message = f"algorithm.rejections: accept_if: {self.name} raised {type(error).__name__}: {error}"
            raise UserError(message) from error
        if not isinstance(answer, bool | int):
            message = f"algorithm.rejections: accept_if: {self.name} returned {answer!r:.60}, expected true or false"
            raise UserError(message)
        return bool(answer)


def facts(batch: PackedBatch) -> list[SequenceFacts]:
    """Of every sequence, in order."""
    rewards, group = batch["rewards"].tolist(), batch["group"].tolist()
    of_group: dict[int, list[float]] = {}
    for reward, name in zip(rewards, group, strict=True):
        of_group.setdefault(name, []).append(reward)
    parts = {
        name.removeprefix("rewards/"): field.tolist()
        for name, field in batch.sequence_fields.items()
        if name.startswith("rewards/")
    }
    lengths = segment_count(batch["generated"], batch.cu_seqlens).tolist()
    truncated, bounds, tokens = batch["truncated"].tolist(), batch.cu_seqlens.tolist(), batch.tokens.tolist()
    return [
        SequenceFacts(
            reward=rewards[index],
            rewards={name: values[index] for name, values in parts.items()},
            group_rewards=of_group[group[index]],
            length=lengths[index],
            truncated=truncated[index],
            tokens=tokens[bounds[index] : bounds[index + 1]],
        )
        for index in range(batch.num_sequences)
    ]
