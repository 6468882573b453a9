"""Dynamic fine-tuning (2508.05629): the negative log-likelihood, each token weighted by its own probability.

N tokens. Inside the mask, with sg for stop-gradient,

    l_t = -sg(pi(t)) log pi(t)

Seen as reinforcement learning, SFT's gradient weighs a token by 1 / pi(t); this takes that weight away. Masks and metrics as in `nll`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from core_rl_sft.nll import Nll

if TYPE_CHECKING:
    import torch

    from core_rl.data.batch import PackedBatch
    from core_rl.roles.train import LossOutput


class Dft(Nll):
    """A loss."""

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        output = super().__call__(logprobs, batch)
        return attrs.evolve(output, values=logprobs.detach().exp() * output.values)
