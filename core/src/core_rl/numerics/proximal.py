"""The proximal policy without a forward pass of its own: on the log-linear way between rollout and current policy (A-3PO, 2512.06547).

    log pi_prox = log mu + alpha_t (sg log pi - log mu),   alpha_t = clip((v - 1 - v_t) / (v - v_t), 0, 1)

with v the version of the weights in training and v_t the version that wrote token t. alpha is 0 where v_t >= v: the token is fresh, and
the rollout policy is the proximal one. It is 0 where no policy wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def loglinear_alpha(versions: torch.Tensor, version: int) -> torch.Tensor:
    """versions [N] int32 (-1: no policy wrote the token) -> alpha [N] float32."""
    age = version - versions.double()
    alpha = ((age - 1) / age.clamp(min=1.0)).clamp(0.0, 1.0)
    return alpha.where((versions >= 0) & (age > 0), 0.0).float()
