"""Did the weights arrive? Both sides' fingerprints say so after every update."""

from __future__ import annotations

from collections.abc import Mapping

from core_rl.errors import RunError
from core_rl.fingerprint import same


def prove(transport: str, version: int, *, sent: Mapping[str, float], served: Mapping[str, float]) -> None:
    """Raises `RunError` when the rollout engine does not serve what the train engine has sent."""
    difference = same(sent, served)
    if difference is not None:
        message = (
            f"weight_transport {transport}: at version {version} the rollout engine (second) does not serve what the train "
            f"engine (first) has sent: {difference}"
        )
        raise RunError(message)
