from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def serve():
    """Starts servers that end with the test."""
    from judge_server import JudgeServer

    servers = []

    def start(plan):
        servers.append(JudgeServer(plan))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
