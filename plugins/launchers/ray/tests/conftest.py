"""A cluster for the tests of a module."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from core_rl_ray.cluster import join
from core_rl_ray.config import RayLauncherConfig


@pytest.fixture(scope="module", autouse=True)
def _own_files():
    """Ray's files and token are the tests' own, so that nothing of the user's is read or left behind."""
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # sockets have short names
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", folder)
        patch.setenv("RAY_AUTH_TOKEN", "of-this-test-alone-0123456789abcdef")
        yield
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        joined = join(RayLauncherConfig(object_store_mb=200))
        yield joined
        joined.leave()
