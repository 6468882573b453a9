"""The reward `guess`: 1 for a number found with the first guess, less the later it is found, 0 for one that is not.

With T turns, found with guess t: 1 - (1 - slow) (t - 1) / (T - 1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core_rl.errors import PluginError
from core_rl.roles.scoring import RewardOutcome
from core_rl_example_guess.game import Game

if TYPE_CHECKING:
    from core_rl.data.sample import Sample
    from core_rl_example_guess.config import GuessRewardConfig


class GuessReward:
    """Reads the game that the workflow left in the sample."""

    def __init__(self, options: GuessRewardConfig) -> None:
        self._slow = options.slow

    def score(self, sample: Sample) -> RewardOutcome:
        game = sample.metadata.get("guess")
        if not isinstance(game, Game):
            message = "the reward guess scores games: select `workflow: guess` with it"
            raise PluginError(message)
        if game.found is None:
            return RewardOutcome(value=0.0, info={"guesses": game.guesses, "found": False})
        late = 0.0 if game.turns == 1 else (game.found - 1) / (game.turns - 1)
        return RewardOutcome(value=1.0 - (1.0 - self._slow) * late, info={"guesses": game.guesses, "found": True})
