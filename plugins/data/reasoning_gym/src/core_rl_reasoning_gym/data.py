"""Prompts that tasks of reasoning-gym make.

Held out: `eval_size` different questions, generated from `eval_seed`. When twice as many draws of a task do not give enough of them, it has
few questions (one-digit sums of two terms: two hundred), and half of those found are held out. A question that is held out is left out of
the training rows; these keep the tasks' weights and each task's own frequencies, repeats included.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from core_rl.data.prompts import make_prompt
from core_rl.data.rows import Row, fill
from core_rl.data.sample import Prompt
from core_rl.errors import DataError
from core_rl.roles.parts import Split
from core_rl.seeds import derive
from core_rl_reasoning_gym.config import DataConfig, TaskConfig
from core_rl_reasoning_gym.tasks import check_installed, entries

_DRAWS_A_ROW = 2000


@attrs.frozen
class Drawn:
    """A row of a task: its id, and what reasoning-gym made."""

    task: TaskConfig
    id: str
    entry: dict[str, Any]

    @property
    def question(self) -> str:
        return str(self.entry["question"])


class ReasoningGymData:
    """Generated anew at each load; the same seed gives the same rows."""

    def __init__(self, config: DataConfig) -> None:
        check_installed()
        self._config = config
        self._tasks = _tasks(config)

    def load(self, split: Split, seed: int) -> Sequence[Prompt]:
        held = self._held_out()
        if split == "train":
            seed = seed if self._config.seed is None else self._config.seed
            return [self._prompt(drawn) for drawn in self._to_train_on(seed, {drawn.question for drawn in held})]
        return [self._prompt(drawn) for drawn in held]

    def _to_train_on(self, seed: int, apart: set[str]) -> Iterator[Drawn]:
        places = self._places(seed, "train", self._config.size)
        sources = [self._draws(place, seed, "train", chunk=count) for place, count in enumerate(_counts(places, self._tasks))]
        for place in places:
            draws = (next(sources[place]) for _ in range(_DRAWS_A_ROW))
            drawn = next((drawn for drawn in draws if drawn.question not in apart), None)
            if drawn is None:
                name = self._tasks[place].task
                message = f"reasoning_gym: task {name}: nearly every question it has is held out; lower eval_size"
                raise DataError(message)
            yield drawn

    def _held_out(self) -> list[Drawn]:
        seed = self._config.eval_seed
        places = self._places(seed, "eval", self._config.eval_size)
        held: dict[str, Drawn] = {}
        for place, count in enumerate(_counts(places, self._tasks)):
            found: dict[str, Drawn] = {}
            draws = self._draws(place, seed, "eval", chunk=2 * count)
            for _ in range(2 * count):
                if len(found) < count:
                    drawn = next(draws)
                    found.setdefault(drawn.question, drawn)
            kept = list(found.values())
            held.update({drawn.question: drawn for drawn in (kept if len(kept) == count else kept[: len(kept) // 2])})
        rows = list(held.values())
        random.Random(derive(seed, "reasoning_gym", "order")).shuffle(rows)  # noqa: S311 — evaluation takes the first so many
        return rows

    def _places(self, seed: int, split: Split, count: int) -> list[int]:
        """Which task each row is of."""
        choice = random.Random(derive(seed, "reasoning_gym", split))  # noqa: S311 — nothing secret
        return choice.choices(range(len(self._tasks)), [task.weight for task in self._tasks], k=count)

    def _draws(self, place: int, seed: int, split: Split, *, chunk: int) -> Iterator[Drawn]:
        task = self._tasks[place]
        twice = sum(other.task == task.task for other in self._tasks) > 1
        name = f"{task.task}.{place}" if twice else task.task
        for number, entry in enumerate(entries(task.task, task.config, seed=derive(seed, split, place), chunk=max(chunk, 1))):
            yield Drawn(task, f"{name}/{split}/{number}", entry)

    def _prompt(self, drawn: Drawn) -> Prompt:
        config, task = self._config, drawn.task
        place = f"reasoning_gym: {drawn.id}"
        return make_prompt(
            id=drawn.id,
            content=fill(config.template, Row(place, {"question": drawn.question})),
            place=place,
            format=config.format,
            system_prompt=config.system_prompt,
            answer=drawn.entry["answer"],
            metadata={"task": task.task, "task_config": dict(task.config), "entry": drawn.entry},
        )


def _tasks(config: DataConfig) -> list[TaskConfig]:
    if config.task is not None:
        return [TaskConfig(task=config.task, config=config.config)]
    if not config.tasks:
        message = "reasoning_gym: which task? Set task to a name such as chain_sum, or tasks to a list of them"
        raise DataError(message)
    return [TaskConfig(task=item) if isinstance(item, str) else item for item in config.tasks]


def _counts(places: Sequence[int], tasks: Sequence[TaskConfig]) -> list[int]:
    return [places.count(place) for place in range(len(tasks))]
