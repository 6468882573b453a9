"""Every error that core-rl raises on purpose.

A `UserError` is a mistake that the user can mend: the command line prints it as one line and exits with 2.
Its message names the place, what was expected and the mend. Anything else is ours, and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs


class UserError(ValueError):
    """A mistake in what the user gave: a file, an option, a model path, a plugin."""


@attrs.frozen
class Problem:
    """One mistake in a run file. `where` is `file:line:col`, or `key=value` for an override."""

    where: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.path}: {self.message}" if self.path else f"{self.where}: {self.message}"


class ConfigError(UserError):
    """All mistakes of a configuration at once."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class PluginError(UserError):
    """A plugin or component that was selected cannot be used."""


class CapabilityError(UserError):
    """A selected component needs something that no other selected component provides."""


class DataError(UserError):
    """A data set, prompt or sample that cannot be used."""


class PromptTooLongError(DataError):
    """A prompt that leaves no room for a completion in the model's context."""


class ModelError(UserError):
    """A model or tokenizer that cannot be loaded."""


class CheckpointError(UserError):
    """No checkpoint can be written or read."""


class RewardError(UserError):
    """A reward failed and the policy for failures is `stop`."""


class RunError(UserError):
    """A run cannot go on: weights that differ, a loss that is not finite, an engine that died."""


def first_of(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a task group, as it was raised."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
