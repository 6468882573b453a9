"""Tasks of reasoning-gym by name, with errors that say what was meant. The only module that imports it: that takes a second."""

from __future__ import annotations

import contextlib
import importlib.util
import io
from collections.abc import Iterator, Mapping
from typing import Any

from core_rl.errors import DataError, PluginError
from core_rl.seeds import derive
from core_rl.suggest import did_you_mean

_SEEDS = 2**31  # some tasks hand their seed to numpy, which takes 32 bits, and add the row's number to it


def check_installed() -> None:
    """Raises `PluginError` when there is no reasoning-gym; nothing is imported."""
    if importlib.util.find_spec("reasoning_gym") is None:
        message = "reasoning_gym needs reasoning-gym: pip install 'core-rl[reasoning_gym]'"
        raise PluginError(message)


def make_task(name: str, config: Mapping[str, Any], *, seed: int, size: int) -> Any:
    """The `ProceduralDataset` of that name.

    Raises:
        DataError: no such task, no such option, or a value that the task refuses.
    """
    from reasoning_gym.factory import DATASETS

    if name not in DATASETS:
        message = f"reasoning_gym: there is no task {name!r}{did_you_mean(name, sorted(DATASETS))}"
        raise DataError(message)
    task_class, config_class = DATASETS[name]
    known = [field for field in config_class.__dataclass_fields__ if field not in {"seed", "size"}]
    for option in config:
        if option not in known:
            ours = (
                "; seed and size are options of the data source" if option in {"seed", "size"} else did_you_mean(option, known)
            )
            message = f"reasoning_gym: task {name} has no option {option!r}{ours}"
            raise DataError(message)
    try:
        # A task checks its options by asserting, and its constructor may stumble over what the check let through.
        return task_class(config=config_class(**config, seed=seed % _SEEDS, size=size))
    except (AssertionError, TypeError, ValueError, LookupError, OSError) as error:
        message = f"reasoning_gym: task {name} refuses its options: {str(error) or type(error).__name__}"
        raise DataError(message) from error


def entries(name: str, config: Mapping[str, Any], *, seed: int, chunk: int) -> Iterator[dict[str, Any]]:
    """Rows of a task without end, a chunk of them from each of a series of seeds."""
    number = 0
    while True:
        task = make_task(name, config, seed=derive(seed, "reasoning_gym", name, number), size=chunk)
        for index in range(chunk):
            with contextlib.redirect_stdout(io.StringIO()):  # a few tasks print while they work
                entry = task[index]
            yield entry
        number += 1
