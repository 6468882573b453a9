from __future__ import annotations

from typing import Literal

import attrs


@attrs.frozen(kw_only=True)
class Cap:
    ratio: float = attrs.field(default=10.0, metadata={"help": "ratios above this are cut"})


@attrs.frozen(kw_only=True)
class TemperedConfig:
    beta: float = attrs.field(
        default=2.0, validator=attrs.validators.gt(0), metadata={"help": "how soon the bound is felt"}
    )
    sides: Literal["both", "upper"] = attrs.field(default="both", metadata={"help": "where the ratio is squashed"})
    cap: Cap = attrs.field(factory=Cap, metadata={"help": "a hard bound besides"})

    def formula(self) -> str:
        return f"l_t = -A_t tanh({self.beta:g} (r_t - 1)) / {self.beta:g}, r_t <= {self.cap.ratio:g}"
