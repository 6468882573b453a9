"""From the hidden states of the last stage to what an objective or a caller sees: tensors [N] of a micro-batch.

M scored tokens of N, E hidden size, s and b of the block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import torch

from core_rl.hf.packed.policy import Outputs
from core_rl.train.vocabulary import Shard, token_logprobs, top_logprobs

if TYPE_CHECKING:
    from core_rl_megatron._blocks import Block
    from core_rl_megatron._model import PolicyModel


@attrs.frozen(kw_only=True)
class Reader:
    """How the last stage is read: for which vocabulary, at which temperature, with how much memory for logits."""

    vocabulary: int
    temperature: float
    logits_bytes: int

    def outputs(
        self, model: PolicyModel, hidden: torch.Tensor, block: Block, *, entropy_grad: bool = False, top_k: int = 0
    ) -> Outputs:
        """hidden [s (of this rank), b, E] -> [N] on its device, the same on every tensor-parallel rank."""
        rows = model.whole_sequences(hidden).flatten(0, 1)[block.predictors]
        size = block.part.num_tokens

        def spread(scored: torch.Tensor) -> torch.Tensor:
            """[M, …] -> [N, …], 0 elsewhere."""
            full = torch.zeros(size, *scored.shape[1:], device=scored.device, dtype=scored.dtype)
            return full.index_put((block.scored,), scored)

        found: dict[str, torch.Tensor] = {}
        if model.value_head is not None:
            found["values"] = spread((rows.float() @ model.value_head.weight.float().t())[:, 0])
        nothing = torch.zeros(size, device=hidden.device)
        if not model.has_logits:
            return Outputs(logprobs=nothing, entropy=nothing, **found)
        weight = model.output_weight()
        shard = self._shard(model, weight)
        ids = block.targets[:, None]
        if "gather_ids" in block.part:
            ids = torch.cat([ids, block.part["gather_ids"].to(ids.device)[block.scored]], 1)
        scored, entropy = token_logprobs(rows, weight, ids, shard, entropy_grad=entropy_grad)
        if "gather_ids" in block.part:
            found["gathered"] = spread(scored[:, 1:].float())
        if top_k:
            likeliest, logprobs = top_logprobs(rows.detach(), weight, shard, min(top_k, self.vocabulary))
            found |= {"topk_ids": spread(likeliest), "topk_logprobs": spread(logprobs.float())}
        return Outputs(logprobs=spread(scored[:, 0].float()), entropy=spread(entropy.float()), **found)

    def _shard(self, model: PolicyModel, weight: torch.Tensor) -> Shard:
        group = model.pg_collection.tp
        start = group.rank() * weight.shape[0]
        return Shard(
            group=group,
            start=start,
            size=max(0, min(weight.shape[0], self.vocabulary - start)),
            temperature=self.temperature,
            rows=max(1, self.logits_bytes // (4 * weight.shape[0])),
        )
