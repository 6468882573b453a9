"""Options of supervised fine-tuning. Torch-free."""

from __future__ import annotations

from typing import Literal

import attrs

from core_rl.config.offline import OfflineConfig
from core_rl.config.selection import Selection, component

_LOSS_HELP = "the loss of a row"


@attrs.frozen(kw_only=True)
class NllConfig:
    """Which tokens are imitated. See `core_rl_sft.nll`."""

    on: Literal["chosen", "all"] = attrs.field(
        default="chosen",
        metadata={
            "help": "of pairs: the preferred completion alone, or both; of other rows it is always everything that is learnt"
        },
    )

    def formula(self) -> str:
        return "l = -log pi"


@attrs.frozen(kw_only=True)
class DftConfig(NllConfig):
    """As `nll`. See `core_rl_sft.dft`."""

    def formula(self) -> str:
        return "l = -sg(pi) log pi"


@attrs.frozen(kw_only=True)
class Sft(OfflineConfig):
    """Supervised fine-tuning: the negative log-likelihood of what is imitated, mean over tokens."""

    loss: Selection = component("loss", "nll", help=_LOSS_HELP)


@attrs.frozen(kw_only=True)
class Dft(OfflineConfig):
    """Dynamic fine-tuning (2508.05629): SFT whose tokens count as much as the model believes in them already."""

    loss: Selection = component("loss", "dft", help=_LOSS_HELP)
