"""The kit on this logger."""

from __future__ import annotations

from core_rl.testing import LoggerConformance


class TestTensorBoard(LoggerConformance):
    component = "tensorboard"
