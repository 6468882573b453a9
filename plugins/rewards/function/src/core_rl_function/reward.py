"""The reward `function`: calls the user's function with what its parameters ask for."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from core_rl.data.sample import Sample
from core_rl.errors import PluginError
from core_rl.roles.scoring import RewardOutcome
from core_rl.suggest import did_you_mean
from core_rl_function.config import FunctionConfig
from core_rl_function.find import find_function

OFFERED: Mapping[str, Callable[[Sample], Any]] = {
    "completion": lambda sample: sample.completion_text,
    "answer": lambda sample: sample.prompt.answer,
    "prompt": lambda sample: sample.prompt,
    "sample": lambda sample: sample,
    "metadata": lambda sample: sample.prompt.metadata,
}

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class FunctionReward:
    """As thread-safe as the function is. An async function runs on the loop, a plain one in a thread."""

    def __init__(self, config: FunctionConfig) -> None:
        self._config = config
        self._function = find_function(config.function)
        self._names = _asked_for(self._function, config)

    def __reduce__(self) -> tuple[type[FunctionReward], tuple[FunctionConfig]]:
        return FunctionReward, (self._config,)

    def score(self, sample: Sample) -> RewardOutcome | Awaitable[RewardOutcome]:
        offered = {name: OFFERED[name](sample) for name in self._names}
        result = self._function(**offered, **self._config.arguments)
        return self._awaited(result) if inspect.isawaitable(result) else self._outcome(result)

    async def _awaited(self, result: Awaitable[Any]) -> RewardOutcome:
        return self._outcome(await result)

    def _outcome(self, result: Any) -> RewardOutcome:
        """Numbers of any library, and truth values. Anything else is the function's mistake, and the scorer's business."""
        if isinstance(result, RewardOutcome):
            return result
        if isinstance(result, numbers.Real) or hasattr(result, "item"):
            return RewardOutcome(value=float(result))
        message = f"{self._config.function} returned {type(result).__name__}, a reward is a number or a RewardOutcome"
        raise TypeError(message)


def _asked_for(function: Callable[..., Any], config: FunctionConfig) -> list[str]:
    """The names among those offered that the function has parameters for.

    Raises:
        PluginError: it asks for something else, cannot be called by name, or has no place for one of `arguments`.
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        message = f"reward function: {config.function} does not say what it is called with; wrap it in a function of yours"
        raise PluginError(message) from error
    takes_all = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    for name, parameter in parameters.items():
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            message = f"reward function: {config.function}: parameter {name!r} is positional only; parameters are given by name"
            raise PluginError(message)
        required = parameter.kind in _BY_NAME and parameter.default is inspect.Parameter.empty
        if required and name not in {*OFFERED, *config.arguments}:
            message = (
                f"reward function: {config.function} asks for {name!r}; it may ask for {', '.join(OFFERED)}, "
                f"or be given {name!r} by `arguments`"
            )
            raise PluginError(message)
    for name in config.arguments:
        if name not in parameters and not takes_all:
            hint = did_you_mean(name, parameters)
            message = f"reward function: {config.function} has no parameter {name!r} for arguments.{name}{hint}"
            raise PluginError(message)
    return [name for name in OFFERED if (name in parameters or takes_all) and name not in config.arguments]
