"""Options of the loss `ce_gppo`. Torch-free."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class CeGppoConfig:
    """Where PPO clips, and how much of the gradient stays there. See `core_rl_example_ce_gppo.loss`."""

    clip_low: float = attrs.field(
        default=0.2,
        validator=[attrs.validators.gt(0.0), attrs.validators.lt(1.0)],
        metadata={"help": "a ratio below 1 - clip_low is clipped where the advantage is negative"},
    )
    clip_high: float = attrs.field(
        default=0.28,
        validator=attrs.validators.gt(0.0),
        metadata={"help": "a ratio above 1 + clip_high is clipped where the advantage is positive"},
    )
    beta_low: float = attrs.field(
        default=0.75,
        validator=attrs.validators.ge(0.0),
        metadata={"help": "how much of the gradient at the lower bound stays; 0 is PPO, more sharpens the policy"},
    )
    beta_high: float = attrs.field(
        default=1.0,
        validator=attrs.validators.ge(0.0),
        metadata={"help": "the same at the upper bound; 0 is PPO, more explores"},
    )

    def formula(self) -> str:
        low, high = 1 - self.clip_low, 1 + self.clip_high
        return (
            f"l = -r A; beyond the clip, with k = r / sg(r): -{self.beta_low * low:g} k A for A < 0 and r < {low:g}, "
            f"-{self.beta_high * high:g} k A for A > 0 and r > {high:g}"
        )
