"""What the advantages of whole sequences share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from core_rl.numerics.segments import broadcast

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch


def on_tokens(per_sequence: torch.Tensor, batch: PackedBatch) -> Mapping[str, torch.Tensor]:
    """[S] -> `advantages` [N] float32: at every token in the mask; 0 for what is not finite."""
    known = per_sequence.where(per_sequence.isfinite(), 0.0).float()
    return {"advantages": broadcast(known, batch.cu_seqlens, batch.num_tokens).where(batch.loss_mask, 0.0)}
