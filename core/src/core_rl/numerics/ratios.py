"""Importance ratios of two policies, per token, per sequence, or as a geometric mean over the sequence.

N tokens. With d_t = log p_t - log q_t, mask m, and L = sum_t m_t of the sequence:

    token       exp(d_t)                    1707.06347
    sequence    exp(sum_t m_t d_t)          the ratio of the whole sequence's probabilities
    geometric   exp(sum_t m_t d_t / L)      2507.18071 (GSPO)

Sequence and geometric ratios stand at every token of the sequence. The gradient goes through both arguments.
Log-ratios are clamped to +-LOG_RATIO_BOUND before `exp`, so that neither value nor gradient overflows; a clamped token has no gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.numerics.segments import broadcast, segment_mean, segment_sum

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch
    from core_rl.numerics.names import RatioLevel

LOG_RATIO_BOUND = 20.0
"""e^20 = 4.9e8: far outside of every trust region. The bound of verl, SkyRL and OpenRLHF."""


def log_ratios(log_p: torch.Tensor, log_q: torch.Tensor, batch: PackedBatch, level: RatioLevel = "token") -> torch.Tensor:
    """[N]: the logarithm of the ratio p/q at this level, not clamped; 0 outside the loss mask."""
    if level == "token":
        return (log_p - log_q).where(batch.loss_mask, 0.0)
    per_sequence = _of_sequences(log_p, log_q, batch, level)
    return broadcast(per_sequence, batch.cu_seqlens, batch.num_tokens).where(batch.loss_mask, 0.0)


def _of_sequences(log_p: torch.Tensor, log_q: torch.Tensor, batch: PackedBatch, level: RatioLevel) -> torch.Tensor:
    """[S]"""
    reduce = segment_sum if level == "sequence" else segment_mean
    return reduce(log_p - log_q, batch.cu_seqlens, batch.loss_mask)


def bounded_exp(log_ratio: torch.Tensor, bound: float = LOG_RATIO_BOUND) -> torch.Tensor:
    """exp(clamp(x, -bound, bound))."""
    return log_ratio.clamp(-bound, bound).exp()


def ratios(
    log_p: torch.Tensor,
    log_q: torch.Tensor,
    batch: PackedBatch,
    level: RatioLevel = "token",
    *,
    bound: float = LOG_RATIO_BOUND,
) -> torch.Tensor:
    """[N]: p/q at this level; 1 outside the loss mask."""
    if level == "token":
        return bounded_exp(log_ratios(log_p, log_q, batch), bound)
    per_sequence = bounded_exp(_of_sequences(log_p, log_q, batch, level), bound)  # S exponentials, not N
    return broadcast(per_sequence, batch.cu_seqlens, batch.num_tokens).where(batch.loss_mask, 1.0)
