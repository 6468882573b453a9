"""The router of a mixture of experts, with a plain product: megatron-core 0.16's own fails without Transformer Engine (NameError)."""

from __future__ import annotations

import torch
from megatron.core.transformer.moe.router import TopKRouter


class Router(TopKRouter):  # type: ignore[misc] # megatron carries no types
    """Softmax over experts in float32, as in transformers."""

    def gating(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - megatron's name
        """[s, b, E] -> [s, b, experts]"""
        return torch.nn.functional.linear(input, self.weight)
