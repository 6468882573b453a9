"""What pairs are compared by: log-probabilities of whole completions, under the policy and the reference.

N tokens, S sequences, P pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

import attrs
import torch

from core_rl.numerics.pairs import Pairs
from core_rl.numerics.segments import broadcast, prefix_sum, segment_count, segment_sum
from core_rl.roles.train import LossOutput

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch

Length = Literal["sum", "mean"]


def sequence_logprobs(logprobs: torch.Tensor, batch: PackedBatch, length: Length = "sum") -> torch.Tensor:
    """[N] -> [S]: summed, or averaged, over the tokens in the mask."""
    total = segment_sum(logprobs, batch.cu_seqlens, batch.loss_mask)
    return total if length == "sum" else total / segment_count(batch.loss_mask, batch.cu_seqlens).clamp(min=1)


def reference_logprobs(batch: PackedBatch, length: Length = "sum") -> torch.Tensor:
    """[S]: of the frozen reference's tokens, or the sums that were computed before."""
    if "ref_logprobs" in batch:
        return sequence_logprobs(batch["ref_logprobs"], batch, length)
    total = batch["ref_sequence_logprobs"]
    return total if length == "sum" else total / segment_count(batch.loss_mask, batch.cu_seqlens).clamp(min=1)


def without_tail(logprobs: torch.Tensor, batch: PackedBatch, alpha: float) -> torch.Tensor:
    """[N]: tokens of the longer completion of a pair, beyond the length of the shorter one, count `alpha` (LD-DPO)."""
    pairs = Pairs.of(batch)
    lengths = segment_count(batch.loss_mask, batch.cu_seqlens)
    shared = pairs.to_tokens(torch.minimum(lengths[pairs.chosen], lengths[pairs.rejected]), batch)
    number = prefix_sum(batch.loss_mask.long(), batch.cu_seqlens)
    return torch.where(number > shared, alpha * logprobs, logprobs)


@attrs.frozen(eq=False)
class Sides:
    """Of each pair [P]: the log-probabilities (or log-ratios to the reference) of the chosen and the rejected completion."""

    pairs: Pairs
    chosen: torch.Tensor
    rejected: torch.Tensor

    @classmethod
    def of(cls, per_sequence: torch.Tensor, pairs: Pairs) -> Self:
        return cls(pairs, per_sequence[pairs.chosen], per_sequence[pairs.rejected])


def pair_output(loss: torch.Tensor, sides: Sides, beta: float, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
    """The loss [P] at every token of its pair, with the metrics that all preference losses share.

    `rewards/chosen`, `rewards/rejected` (beta times what is compared), `rewards/margin`, `rewards/accuracy` (margin above 0);
    `logps/chosen` and `logps/rejected`, summed over tokens: both may fall while the margin grows.
    """
    chosen, rejected = beta * sides.chosen.detach(), beta * sides.rejected.detach()
    terms = {
        "accuracy": (chosen > rejected).to(chosen.dtype),
        "margin": chosen - rejected,
        "chosen": chosen,
        "rejected": rejected,
    }
    logps = Sides.of(sequence_logprobs(logprobs.detach(), batch), sides.pairs)
    metrics = {f"rewards/{name}": term for name, term in terms.items()}
    metrics |= {"logps/chosen": logps.chosen, "logps/rejected": logps.rejected}
    count = torch.tensor(chosen.numel(), device=chosen.device)
    return LossOutput(
        values=sides.pairs.to_tokens(loss, batch), metrics={name: (term.sum(), count) for name, term in metrics.items()}
    )


def to_tokens(per_sequence: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
    """[S] -> [N]"""
    return broadcast(per_sequence, batch.cu_seqlens, batch.num_tokens)
