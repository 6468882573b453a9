"""Means and variances over the tokens of a mask, and whitening with them.

N tokens, n of them in the mask. Moments are float64; what stands outside the mask may be NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from core_rl.numerics.groups import Std


def masked_mean(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """[N] -> scalar: sum_t m_t x_t / n; 0 for an empty mask."""
    total = values.where(mask, 0.0).double().sum()
    return (total / mask.sum().clamp(min=1)).to(values.dtype)


def masked_variance(values: torch.Tensor, mask: torch.Tensor, std: Std = "sample") -> torch.Tensor:
    """[N] -> scalar: sum_t m_t (x_t - mean)^2 / (n - 1), or / n for `population`; 1 for fewer than two tokens."""
    count = mask.sum()
    centred = (values.double() - masked_mean(values.double(), mask)).where(mask, 0.0)
    ddof = 1 if std == "sample" else 0
    variance = centred.square().sum() / (count - ddof).clamp(min=1)
    return variance.where(count > 1, 1.0).to(values.dtype)


def whiten(
    values: torch.Tensor, mask: torch.Tensor, *, std: Std = "sample", eps: float = 1e-8, shift_mean: bool = True
) -> torch.Tensor:
    """[N] -> [N]: (x - mean) / sqrt(variance + eps), 0 outside the mask; without `shift_mean` the mean is added back.

    `sample` is the form of verl and OpenRLHF, `population` that of NeMo-RL. One token alone becomes 0; equal ones become 0.
    """
    exact = values.double()
    mean, variance = masked_mean(exact, mask), masked_variance(exact, mask, std)
    whitened = (exact - mean) / (variance + eps).sqrt()
    if not shift_mean:
        whitened = whitened + mean
    return whitened.where(mask, 0.0).to(values.dtype)
