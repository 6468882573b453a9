"""Options classes of toy components: enough of every shape that a plugin's may have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import attrs

from core_rl.config.algorithm import AlgorithmConfig, KlConfig
from core_rl.config.selection import Selection, component, components

_MODES = attrs.validators.in_(["cloud", "offline"])


@attrs.frozen(kw_only=True)
class GrpoConfig(AlgorithmConfig):
    """A named set of defaults."""

    group_size: int = attrs.field(default=8, validator=attrs.validators.ge(1), metadata={"help": "samples of each prompt"})
    advantage: Selection = component("advantage", "group", help="advantages")
    loss: Selection = component("loss", "ppo_clip", help="the loss", clip_high=0.28)
    kl: KlConfig = attrs.field(factory=lambda: KlConfig(coef=0.04), metadata={"help": "distance to the reference"})
    rejections: tuple[Selection, ...] = components("rejection", ("zero_variance",), help="filters")


@attrs.frozen(kw_only=True)
class PpoClipConfig:
    clip_low: float = attrs.field(default=0.2, validator=attrs.validators.gt(0.0), metadata={"help": "below"})
    clip_high: float = attrs.field(default=0.2, validator=attrs.validators.gt(0.0), metadata={"help": "above"})


@attrs.frozen(kw_only=True)
class CispoConfig:
    upper: float = attrs.field(default=5.0, metadata={"help": "bound"})


@attrs.frozen(kw_only=True)
class RowsConfig:
    path: str = attrs.field(metadata={"help": "the file with the rows"})
    limit: int | None = attrs.field(default=None, metadata={"help": "at most so many"})
    seed: int = attrs.field(default=0, metadata={"help": "of the shuffle"})


@attrs.frozen(kw_only=True)
class FormatConfig:
    pattern: str = attrs.field(default=".*", metadata={"help": "a regular expression"})


@attrs.frozen(kw_only=True)
class OptimizerConfig:
    betas: tuple[float, float] = attrs.field(default=(0.9, 0.95), metadata={"help": "of AdamW"})
    weight_decay: float = attrs.field(default=0.0, metadata={"help": "decoupled"})


@attrs.frozen(kw_only=True)
class EngineConfig:
    lr: float = attrs.field(default=1e-6, validator=attrs.validators.ge(0.0), metadata={"help": "learning rate"})
    warmup_steps: int = attrs.field(default=0, metadata={"help": "steps until lr is reached"})
    optimizer: OptimizerConfig = attrs.field(
        factory=lambda: OptimizerConfig(weight_decay=0.1), metadata={"help": "its details"}
    )


@attrs.frozen(kw_only=True)
class TrackerConfig:
    project: str = attrs.field(default="core-rl", metadata={"help": "where it goes"})
    api_key: str | None = attrs.field(default=None, metadata={"help": "the key", "secret": True})
    mode: str = attrs.field(default="cloud", validator=_MODES, metadata={"help": "cloud or offline"})


@attrs.frozen(kw_only=True)
class Corner:
    x: int = attrs.field(metadata={"help": "required"})
    y: int = 0


@attrs.frozen(kw_only=True)
class ZooConfig:
    """One key of every type that an options class may have."""

    flag: bool = False
    count: int = 1
    rate: float = 0.5
    text: str = "a"
    file: Path = Path("x")
    choice: Literal["red", "green", 3] = "red"
    maybe: int | None = None
    either: int | Literal["auto"] = "auto"
    names: tuple[str, ...] = ()
    names_or_none: tuple[str, ...] | None = None
    pair: tuple[int, str] = (1, "a")
    numbers: list[float] = attrs.field(factory=list)
    some: frozenset[str] = frozenset()
    table: Mapping[str, Any] = attrs.field(factory=dict)
    sizes: Mapping[int, float] = attrs.field(factory=dict)
    corner: Corner | None = None
    corners: tuple[Corner, ...] = ()
    anything: Any = None
    small: int = attrs.field(default=1, validator=attrs.validators.le(9))
    large: int = attrs.field(default=99)

    @large.validator
    def _above_small(self, _: Any, value: int) -> None:
        if value <= self.small:
            message = f"large must be above small, {self.small}"
            raise ValueError(message)


@attrs.frozen(kw_only=True)
class BandConfig:
    lower: float = 0.5
    upper: float = 2.0

    def __attrs_post_init__(self) -> None:
        if self.lower > self.upper:
            message = f"lower ({self.lower}) is above upper ({self.upper})"
            raise ValueError(message)


@attrs.frozen(kw_only=True)
class BadConfig:
    """With a type that a run file cannot hold."""

    where: complex = 1j
