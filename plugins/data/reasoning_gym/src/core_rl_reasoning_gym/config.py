"""Options of the data source and of the reward `reasoning_gym`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs

from core_rl.data.answers import Place


@attrs.frozen(kw_only=True)
class TaskConfig:
    """One task of a mixture."""

    task: str = attrs.field(metadata={"help": "the task's name in reasoning-gym, such as chain_sum"})
    weight: float = attrs.field(
        default=1.0,
        validator=attrs.validators.gt(0.0),
        metadata={"help": "its share of the rows, against the other tasks' weights"},
    )
    config: Mapping[str, Any] = attrs.field(factory=dict, metadata={"help": "the task's own options, such as min_terms"})


def _check_tasks(config: DataConfig, _: attrs.Attribute[Any], value: tuple[Any, ...]) -> None:
    if value and config.task is not None:
        message = "task and tasks both say what to generate; leave one of them out"
        raise ValueError(message)
    if value and config.config:
        message = "with tasks, each task has a config of its own; move the options there"
        raise ValueError(message)


@attrs.frozen(kw_only=True)
class DataConfig:
    """What is generated, how much of it, and how it is asked."""

    task: str | None = attrs.field(default=None, metadata={"help": "the task's name in reasoning-gym, such as chain_sum"})
    config: Mapping[str, Any] = attrs.field(factory=dict, metadata={"help": "the task's own options, such as min_terms"})
    tasks: tuple[str | TaskConfig, ...] = attrs.field(
        default=(),
        validator=_check_tasks,
        metadata={"help": "instead of task: a mixture, each a name or {task, weight, config}"},
    )
    size: int = attrs.field(default=1000, validator=attrs.validators.ge(1), metadata={"help": "rows to train on"})
    eval_size: int = attrs.field(
        default=100, validator=attrs.validators.ge(1), metadata={"help": "held-out rows, none of which is trained on"}
    )
    seed: int | None = attrs.field(default=None, metadata={"help": "of the rows to train on; null takes the run's"})
    eval_seed: int = attrs.field(default=0, metadata={"help": "of the held-out rows, the same ones for every run seed"})
    format: Literal["chat", "text"] = attrs.field(
        default="chat",
        metadata={"help": "chat: the question is a user message; text: it goes to the model without a chat template"},
    )
    system_prompt: str | None = attrs.field(default=None, metadata={"help": "put before every question"})
    template: str = attrs.field(default="{question}", metadata={"help": "the prompt's text around {question}"})


@attrs.frozen(kw_only=True)
class RewardConfig:
    """Which part of a completion the scorer gets, and what of its score counts."""

    answer: Place = attrs.field(
        default="tag", metadata={"help": "where the answer stands in a completion; what comes before </think> never counts"}
    )
    tag: str = attrs.field(default="answer", metadata={"help": "with answer tag: the name of the tag, without brackets"})
    partial: bool = attrs.field(default=True, metadata={"help": "the score as it is; false: 1 for a perfect score, else 0"})
