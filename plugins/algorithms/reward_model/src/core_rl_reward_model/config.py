"""Options of reward models and of the reward that they give. Torch-free."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from core_rl.config.offline import OfflineConfig
from core_rl.config.selection import Selection, component

_at_least: Any = attrs.validators.ge
_optional: Any = attrs.validators.optional


@attrs.frozen(kw_only=True)
class BradleyTerryConfig:
    """How two scores are compared. See `core_rl_reward_model.bradley_terry`."""

    centre_coef: float = attrs.field(
        default=0.0,
        validator=_at_least(0.0),
        metadata={"help": "of (s_c + s_r)^2, which keeps scores around 0; 0.01 in 2312.09244; 0 switches it off"},
    )

    def formula(self) -> str:
        centred = f" + {self.centre_coef:g} (s_c + s_r)^2" if self.centre_coef else ""
        return f"l = -log sigmoid(s_c - s_r - margin){centred}"


@attrs.frozen(kw_only=True)
class RewardModel(OfflineConfig):
    """A reward model (2203.02155): one number for a whole sequence, higher for the preferred one of a pair; mean over pairs."""

    loss: Selection = component("loss", "bradley_terry", help="the loss of a row")
    aggregation: Selection = component(
        "aggregation", "prompt-mean", help="how per-token losses become one number, with global denominators"
    )


@attrs.frozen(kw_only=True)
class RewardModelRewardConfig:
    """Which model scores a sample, and how. See `core_rl_reward_model.reward`."""

    path: str = attrs.field(
        metadata={"help": "a folder or hub name of a sequence classification model with one label, such as the model/ of a run"}
    )
    chat_template: str | None = attrs.field(
        default=None, metadata={"help": "a Jinja template in place of the reward model's own, or a path to one"}
    )
    max_length: int | None = attrs.field(
        default=None,
        validator=_optional(_at_least(2)),
        metadata={"help": "a longer sample is cut at its end; null: the reward model's own context"},
    )
    batch_size: int = attrs.field(
        default=16, validator=_at_least(1), metadata={"help": "samples in one forward pass; those that wait are taken together"}
    )
    device: str = attrs.field(default="auto", metadata={"help": "auto, cpu, cuda or cuda:N"})
    dtype: Literal["float32", "bfloat16", "float16"] = attrs.field(
        default="float32", metadata={"help": "precision of the reward model"}
    )
    trust_remote_code: bool = attrs.field(default=False, metadata={"help": "let a model folder's own Python code run"})
