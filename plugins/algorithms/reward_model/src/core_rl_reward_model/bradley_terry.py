"""The loss of a reward model on pairs (Bradley and Terry 1952; 1706.03741, 2203.02155).

N tokens, P pairs. The score s of a sequence is the value at its one token in the mask, which speaks of the whole sequence. Of a pair with
scores s_c (chosen) and s_r (rejected), and margin m where the data set has one (2307.09288), else 0,

    l = -log sigmoid(s_c - s_r - m) + centre_coef (s_c + s_r)^2

stands at both tokens; the second term (2312.09244) holds the scores around 0, of which the first one fixes the differences alone.

Metrics, over pairs: `rewards/accuracy` (s_c > s_r), `rewards/margin` (s_c - s_r), `rewards/chosen`, `rewards/rejected`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.functional import logsigmoid

from core_rl.numerics.pairs import Pairs
from core_rl.numerics.segments import segment_sum
from core_rl.roles.train import LossOutput, Unit

if TYPE_CHECKING:
    from core_rl.data.batch import PackedBatch
    from core_rl_reward_model.config import BradleyTerryConfig


class BradleyTerry:
    """A loss of `new_values`. `logprobs` are 0 here, and not read."""

    unit: Unit = "group"

    def __init__(self, options: BradleyTerryConfig) -> None:
        self.centre = options.centre_coef

    def __call__(self, logprobs: torch.Tensor, batch: PackedBatch) -> LossOutput:
        del logprobs
        pairs = Pairs.of(batch)
        scores = segment_sum(batch["new_values"], batch.cu_seqlens, batch.loss_mask)
        chosen, rejected = scores[pairs.chosen], scores[pairs.rejected]
        difference = chosen - rejected
        wanted = difference - batch["margin"][pairs.chosen] if "margin" in batch else difference
        loss = -logsigmoid(wanted)
        if self.centre:
            loss = loss + self.centre * (chosen + rejected).square()
        terms = {"accuracy": difference > 0, "margin": difference, "chosen": chosen, "rejected": rejected}
        count = torch.tensor(difference.numel(), device=difference.device)
        metrics = {f"rewards/{name}": (term.detach().float().sum(), count) for name, term in terms.items()}
        return LossOutput(values=pairs.to_tokens(loss, batch), metrics=metrics)
