"""What core-rl asks of every workflow and of every reward."""

from __future__ import annotations

from typing import ClassVar

from core_rl_example_guess.game import Game

from core_rl.data.sample import Prompt
from core_rl.testing import RewardConformance, WorkflowConformance, sample


def played(*guesses):
    """A sample with the game of these guesses."""
    game = Game(secret=7, turns=3)
    for guess in guesses:
        game.guess(guess)
    one = sample("".join(guesses), answer="7")
    one.metadata["guess"] = game
    return one


class TestWorkflow(WorkflowConformance):
    component = "guess"
    options: ClassVar = {"higher": "+", "lower": "=", "invalid": " "}
    prompts: ClassVar = [Prompt(id="a", text="1+", answer="7"), Prompt(id="b", text="12+", answer=3)]


class TestReward(RewardConformance):
    component = "guess"
    options: ClassVar = {"slow": 0.25}
    samples: ClassVar = [played("7"), played("5", "7"), played("1", "x", "2")]
