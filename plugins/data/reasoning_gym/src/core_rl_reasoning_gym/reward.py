"""The reward `reasoning_gym`: the answer, taken out of the completion, given to the scorer of the prompt's own task."""

from __future__ import annotations

import contextlib
import io
import json
import threading
from typing import Any

from core_rl.data.answers import find_answer
from core_rl.data.sample import Prompt, Sample
from core_rl.errors import DataError
from core_rl.roles.scoring import RewardOutcome
from core_rl_reasoning_gym.config import RewardConfig
from core_rl_reasoning_gym.guard import is_safe
from core_rl_reasoning_gym.tasks import check_installed, make_task


class ReasoningGymReward:
    """Thread-safe: scorers run one at a time. `info` of an outcome has the answer that was scored."""

    def __init__(self, config: RewardConfig) -> None:
        check_installed()
        self._config = config
        self._scorers: dict[str, Any] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[ReasoningGymReward], tuple[RewardConfig]]:
        return ReasoningGymReward, (self._config,)

    def score(self, sample: Sample) -> RewardOutcome:
        answer = find_answer(sample.completion_text, self._config.answer, tag=self._config.tag)
        entry = _entry(sample.prompt)
        if answer is None:
            return RewardOutcome(value=0.0, info={"answer": None})
        if answer != entry["answer"] and not is_safe(sample.prompt.metadata["task"], answer):
            return RewardOutcome(value=0.0, info={"answer": answer, "problem": "not given to a scorer that would run it"})
        try:
            with self._lock, contextlib.redirect_stdout(io.StringIO()):
                value = float(self._scorer(sample.prompt).score_answer(answer, entry))
        except DataError:
            raise
        except Exception as error:  # noqa: BLE001 — a scorer that stumbles over what a model wrote has seen a wrong answer
            return RewardOutcome(value=0.0, info={"answer": answer, "problem": f"{type(error).__name__}: {error}"})
        return RewardOutcome(value=value if self._config.partial else float(value >= 1.0), info={"answer": answer})

    def _scorer(self, prompt: Prompt) -> Any:
        """The prompt's task with the options it was made with: some scorers read them."""
        task, config = prompt.metadata["task"], prompt.metadata["task_config"]
        key = json.dumps([task, config], sort_keys=True, default=str)
        if key not in self._scorers:
            self._scorers[key] = make_task(task, config, seed=0, size=1)
        return self._scorers[key]


def _entry(prompt: Prompt) -> dict[str, Any]:
    entry = prompt.metadata.get("entry")
    if not isinstance(entry, dict) or not {"task", "task_config"} <= set(prompt.metadata):
        message = (
            f"reward reasoning_gym: prompt {prompt.id} is not of the data source reasoning_gym, which this reward belongs to"
        )
        raise DataError(message)
    return entry
