"""By which numbers a run is judged: its reward, or where nothing is rewarded its loss."""

from __future__ import annotations

from collections.abc import Container

import attrs


@attrs.frozen
class Headline:
    """A word, and the metrics of training and of held-out rows."""

    word: str
    train: str
    held_out: str


REWARD = Headline("reward", "reward/mean", "eval/reward/mean")
LOSS = Headline("loss", "loss", "eval/loss")


def headline(metrics: Container[str]) -> Headline:
    """Of a step's metrics, or of all that a run has logged."""
    return REWARD if REWARD.train in metrics or REWARD.held_out in metrics else LOSS
