"""Two workers for all tests here that are quick: their start costs more than what they compute."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from core_rl.testing.train_engines import Bench


@pytest.fixture(scope="session")
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.close()
