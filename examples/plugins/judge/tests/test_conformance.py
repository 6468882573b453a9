"""What core-rl asks of every reward, with a judge that answers."""

from __future__ import annotations

from typing import ClassVar

import pytest
from judge_server import JudgeServer, said

from core_rl.testing import RewardConformance

SERVER = JudgeServer(lambda _, body: said(f"SCORE: {len(body['messages'][1]['content']) % 11}"))


@pytest.fixture(scope="module", autouse=True)
def _ends():
    yield
    SERVER.close()


class TestJudge(RewardConformance):
    component = "judge"
    options: ClassVar = {"url": SERVER.url, "model": "judge-1"}
