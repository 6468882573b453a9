"""The parts of an offline algorithm: supervised fine-tuning, preferences, reward models."""

from __future__ import annotations

from typing import Literal

import attrs

from core_rl.config.algorithm import TeacherConfig
from core_rl.config.encoding import EncodingConfig
from core_rl.config.selection import Selection, component, components


@attrs.frozen(kw_only=True)
class OfflineConfig:
    """From rows of a data set to optimizer steps. A step takes `run.prompts_per_step` rows; nothing is sampled."""

    loss: Selection = component("loss", help="the loss of a row")
    extra_losses: tuple[Selection, ...] = components(
        "loss", weighted=True, help="added to the loss, each with `weight` (default 1), averaged over its own tokens"
    )
    aggregation: Selection = component(
        "aggregation", "token-mean", help="how per-token losses become one number, with global denominators"
    )
    encoding: EncodingConfig = attrs.field(factory=EncodingConfig, metadata={"help": "from text and messages to tokens"})
    reference: Literal["frozen", "precomputed"] = attrs.field(
        default="frozen",
        metadata={
            "help": "where log-probabilities of the reference come from, if the loss needs them: a frozen copy of the model, or one "
            "pass over the data before training (or the data set itself), which keeps no copy"
        },
    )
    teacher: TeacherConfig | None = attrs.field(default=None, metadata={"help": "for distillation; null: none"})
