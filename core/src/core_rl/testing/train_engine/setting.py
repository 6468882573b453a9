"""How an engine is built for a check: the few options and facts that the checks vary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from core_rl.roles.train import Heads, TrainContext
from core_rl.testing.train_engine.models import SEED

if TYPE_CHECKING:
    from core_rl.hf.spec import ModelSpec

WHOLE_BATCH, FEW_TOKENS = 4096, 24
"""Budgets of a micro-batch: everything at once, and one or two sequences."""
TOTAL_STEPS = 8

OPTIMIZER: dict[str, Any] = {
    "optimizer": "adamw",
    "lr": 2e-3,
    "eps": 1e-2,
    "weight_decay": 0.1,
    "schedule": "linear",
    "warmup": 3.0,
}
"""AdamW, whose state a checkpoint must keep, with an epsilon of the size of the gradients.

With the usual 1e-8 its first step is lr · sign(gradient): a gradient of rounding noise, whose sign is chance, moves a weight as far as
any, and two right engines differ by 2 lr. lr · g / (|g| + eps) changes by at most lr / eps = 0.2 times a change of g: noise stays noise,
and, other than under a small epsilon, a gradient of the wrong scale shows. Decay tells matrices from vectors; the schedule needs a
counter of steps.
"""


@attrs.frozen(kw_only=True)
class Setting:
    """Hashable: what an engine computes under a setting is computed once."""

    model: str
    """A name in the `models` of the suite."""
    pretrained: bool = False
    max_tokens_per_micro_batch: int = WHOLE_BATCH
    max_grad_norm: float | None = None
    temperature: float = 1.0
    reference: bool = False
    heads: Heads = "policy"
    frozen: bool = False

    def options(self) -> dict[str, Any]:
        """Fields of `core_rl.train.config.OptimizerConfig`, which an engine's options have too."""
        return {
            **OPTIMIZER,
            "max_tokens_per_micro_batch": self.max_tokens_per_micro_batch,
            "max_grad_norm": self.max_grad_norm,
        }

    def context(self, spec: ModelSpec) -> TrainContext:
        return TrainContext(
            model=spec,
            seed=SEED,
            total_steps=TOTAL_STEPS,
            temperature=self.temperature,
            reference=self.reference,
            heads=self.heads,
            frozen=self.frozen,
        )


SET_BY_THE_SUITE = frozenset(Setting(model="").options())
"""Options that a test class cannot set."""
