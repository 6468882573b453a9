"""Options classes: of a component, with others inside, and of an algorithm."""

from __future__ import annotations

from typing import Literal

import attrs

from core_rl.config.algorithm import AlgorithmConfig
from core_rl.config.offline import OfflineConfig
from core_rl.config.selection import Selection, component, components


@attrs.frozen(kw_only=True)
class ClipConfig:
    """A frozen attrs class, every field with its help."""

    clip: float = attrs.field(default=0.2, validator=attrs.validators.gt(0.0), metadata={"help": "how far"})
    level: Literal["token", "sequence"] = attrs.field(default="token", metadata={"help": "of what"})
    file: str | None = attrs.field(default=None, metadata={"help": "from where"})

    def formula(self) -> str:
        return f"clip(r, {self.clip:g})"


@attrs.frozen(kw_only=True)
class SumConfig:
    """Options that select further components."""

    inner: Selection = component("loss", "ppo_clip", help="the loss inside")
    maybe: Selection | None = component("normaliser", optional=True, help="none is fine")
    many: tuple[Selection, ...] = components("reward", ("math", {"name": "format"}), help="several", weighted=True)
    clip: ClipConfig = attrs.field(factory=ClipConfig, metadata={"help": "a section"})


@attrs.frozen(kw_only=True)
class Online(AlgorithmConfig):
    """An online algorithm is other defaults."""

    advantage: Selection = component("advantage", "group_norm", help="how rewards become per-token advantages")
    loss: Selection = component("loss", "mine", help="the policy loss of a token", clip=0.3)
    group_size: int = attrs.field(default=16, metadata={"help": "samples of each prompt"})


@attrs.frozen(kw_only=True)
class Offline(OfflineConfig):
    """So is an offline one."""

    loss: Selection = component("loss", "mine", help="the loss of a row")


options = ClipConfig(clip=0.1, level="sequence")
algorithm = Online(group_size=4)
size: int = algorithm.group_size
name: str = algorithm.loss.name
