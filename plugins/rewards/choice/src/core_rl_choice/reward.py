"""The reward `choice`: the option that a completion chooses against the right one."""

from __future__ import annotations

import re

from core_rl.data.sample import Sample
from core_rl.roles.scoring import RewardOutcome
from core_rl_choice.config import ChoiceConfig
from core_rl_choice.extract import by_pattern, chosen
from core_rl_choice.options import options_of, right_label


class ChoiceReward:
    """Thread-safe. `info` of an outcome has the label that was chosen."""

    def __init__(self, config: ChoiceConfig) -> None:
        self._config = config
        self._pattern = None if config.pattern is None else re.compile(config.pattern)

    def score(self, sample: Sample) -> RewardOutcome:
        config = self._config
        options = options_of(sample.prompt, config)
        right = right_label(sample.prompt, options, config)
        if self._pattern is None:
            choice = chosen(sample.completion_text, options, strict=config.strict)
        else:
            choice = by_pattern(sample.completion_text, options, self._pattern)
        if choice is None:
            value = config.incorrect if config.no_answer is None else config.no_answer
        else:
            value = config.correct if choice == right else config.incorrect
        return RewardOutcome(value=value, info={"choice": choice})
