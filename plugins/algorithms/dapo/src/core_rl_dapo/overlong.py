"""Soft overlong punishment (DAPO, 2503.14476, eq. 13): long completions lose reward before they are cut off.

L generated tokens of a sample, L_max the longest completion, E = L_max - cache:

    R = 0                        L <= E
        factor (E - L) / cache   E < L <= L_max
        -factor                  L > L_max

Where this differs from other systems:
1. verl does not floor: beyond L_max the penalty goes on growing (`floor: false`). It matters only where `max_length` is under
   `sampling.max_new_tokens`, or with several turns.
2. The length counts the tokens that the policy wrote, not those of tools.
3. OpenRLHF caps the excess at the cache, and TRL returns -1 beyond L_max: both are the floored form, TRL's with factor 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core_rl.data.sample import Sample
    from core_rl_dapo.config import OverlongConfig


class Overlong:
    """A reward."""

    def __init__(self, options: OverlongConfig) -> None:
        self.options = options

    def score(self, sample: Sample) -> float:
        options = self.options
        longest = options.max_length or int(sample.metadata["max_new_tokens"])
        cache = options.cache or longest / 5
        penalty = min(0.0, options.factor * (longest - cache - sample.num_generated) / cache)
        return max(-options.factor, penalty) if options.floor else penalty
