"""Seeds that follow from the run's seed and a place, so that nothing random has to be saved or passed along."""

from __future__ import annotations

import hashlib


def derive(seed: int, *place: str | int) -> int:
    """A seed in [0, 2**63) for this place: `derive(1, "rollout", step, prompt)`. The same on every machine and Python."""
    text = "\x1f".join([str(seed), *map(str, place)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1
