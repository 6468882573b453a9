"""How likely the served weights find given tokens: one forward pass without decoding."""

from __future__ import annotations

from typing import Any

import torch

from core_rl.data.batch import PackedBatch
from core_rl.hf.packed.policy import Policy
from core_rl.roles.rollout import ScoreRequest, Scores

_LOGITS_MB = 256


def scores(module: Any, request: ScoreRequest) -> Scores:
    """One sequence, by the model's own attention."""
    count = len(request.tokens)
    positions = torch.arange(count, dtype=torch.int32)
    batch = PackedBatch(
        tokens=torch.tensor(request.tokens, dtype=torch.int64),
        cu_seqlens=torch.tensor([0, count], dtype=torch.int32),
        positions=positions,
        loss_mask=positions > 0,
    )
    policy = Policy(module, logits_memory_mb=_LOGITS_MB, packed=False)
    policy.temperature = request.temperature
    with torch.no_grad():
        found = policy.outputs(batch, [0], top_k=request.top_k)
    logprobs = found.logprobs.tolist()
    if not request.top_k:
        return Scores(logprobs=logprobs)
    ids, best = ([] if rows is None else rows[1:].tolist() for rows in (found.topk_ids, found.topk_logprobs))
    return Scores(logprobs=logprobs, topk_ids=[[], *ids], topk_logprobs=[[], *best])
