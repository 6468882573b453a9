"""The kit on every component of this plugin."""

from __future__ import annotations

from typing import ClassVar

import pytest

from core_rl.testing import AlgorithmConformance, LossConformance, RewardConformance, sample

from .tiny_reward_model import save_model


class TestBradleyTerryLoss(LossConformance):
    component = "bradley_terry"


class TestRewardModelAlgorithm(AlgorithmConformance):
    component = "reward_model"


class TestRewardModelReward(RewardConformance):
    component = "reward_model"
    samples: ClassVar = (sample("5", prompt="2+3="), sample("61", prompt="2+3="), sample("", prompt="2+3="))

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _saved(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        folder = tmp_path_factory.mktemp("model")
        save_model(folder)
        cls.options = {"path": str(folder), "device": "cpu"}
