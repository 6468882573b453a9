"""The reward `format`: checks of a completion's form, all or nothing or by the share that holds."""

from __future__ import annotations

import re

from core_rl.data.sample import Sample
from core_rl.roles.scoring import RewardOutcome
from core_rl_format.checks import FORMATS
from core_rl_format.config import FormatConfig


class FormatReward:
    """Thread-safe. `info` of an outcome names the checks that failed."""

    def __init__(self, config: FormatConfig) -> None:
        self._config = config
        self._formats = config.formats or (() if config.pattern is not None else ("think_answer",))
        self._pattern = None if config.pattern is None else re.compile(config.pattern)

    def score(self, sample: Sample) -> RewardOutcome:
        config = self._config
        checks = {name: held for format_name in self._formats for name, held in FORMATS[format_name](sample).items()}
        if self._pattern is not None:
            match = self._pattern.fullmatch if config.match == "full" else self._pattern.search
            checks["pattern"] = match(sample.completion_text) is not None
        share = sum(checks.values()) / len(checks)
        if not config.partial:
            share = float(share == 1.0)
        failed = [name for name, held in checks.items() if not held]
        return RewardOutcome(value=config.incorrect + share * (config.correct - config.incorrect), info={"failed": failed})
