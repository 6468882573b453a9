"""The kit on this logger, offline."""

from __future__ import annotations

from typing import ClassVar

import pytest

from core_rl.testing import LoggerConformance

pytestmark = pytest.mark.slow


class TestSwanLab(LoggerConformance):
    component = "swanlab"
    options: ClassVar = {"mode": "offline", "hardware": False}
