"""The tensors that `TrainEngine.forward` returns, before they are filled.

N tokens of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from core_rl.errors import ModelError

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl.roles.train import Heads, TokenOutput

FIELDS = {"gathered_logprobs": "gathered"}
"""Where a result has another name in `core_rl.roles.train.PolicyOutputs`."""


def room_for(
    batch: PackedBatch,
    outputs: Sequence[TokenOutput],
    *,
    heads: Heads,
    top_k: int | None = None,
    vocabulary: int,
    device: torch.device | None = None,
) -> dict[str, torch.Tensor]:
    """Zeros for everything that is asked for, on the CPU unless told otherwise; of the likeliest tokens at most the vocabulary.

    Raises:
        ModelError: the engine was built without the head that gives it.
    """
    for name in (*outputs, *(() if top_k is None else ("topk_logprobs",))):
        if (name == "values" and heads == "policy") or (name != "values" and heads == "value"):
            message = f"{name} were asked for, and the engine was built with heads {heads!r}"
            raise ModelError(message)
    count = batch.num_tokens
    results: dict[str, torch.Tensor] = {name: torch.zeros(count, device=device) for name in outputs}
    if heads == "value":
        return results
    if top_k is not None:
        k = min(top_k, vocabulary)
        results["topk_ids"] = torch.zeros(count, k, dtype=torch.int64, device=device)
        results["topk_logprobs"] = torch.zeros(count, k, device=device)
    if "gather_ids" in batch:
        results["gathered_logprobs"] = torch.zeros(batch["gather_ids"].shape, device=device)
    return results
