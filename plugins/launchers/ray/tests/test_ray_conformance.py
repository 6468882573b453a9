"""The kit on this launcher, with a cluster of its own."""

from __future__ import annotations

from typing import ClassVar

import pytest

from core_rl.testing import LauncherConformance

pytestmark = pytest.mark.slow


class TestRay(LauncherConformance):
    component = "ray"
    options: ClassVar = {"workers": 1, "device": "cpu", "object_store_mb": 200}
