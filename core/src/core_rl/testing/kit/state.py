"""What belongs to the whole process, and must be as it was after a component has been used."""

from __future__ import annotations

import operator
import os
import random
import sys
from pathlib import Path
from typing import Any

from core_rl.testing.kit.check import listed


def state() -> dict[str, Any]:
    """By the words that say what it is."""
    facts: dict[str, Any] = {
        "the environment (os.environ)": dict(os.environ),
        "the working directory": str(Path.cwd()),
        "the search path (sys.path)": list(sys.path),
        "the random state of `random`": random.getstate(),
    }
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        facts["the random state of numpy"] = repr(numpy.random.get_state(legacy=True))
    torch: Any = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_rng_state"):
        facts |= {
            "the random state of torch": torch.get_rng_state().tolist(),
            "torch's default dtype": torch.get_default_dtype(),
            "torch's default device": str(torch.get_default_device()),
            "torch's number of threads": torch.get_num_threads(),
            "torch's gradient mode": torch.is_grad_enabled(),
            "torch's deterministic mode": torch.are_deterministic_algorithms_enabled(),
        }
    return facts


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What differs, in words. What a late import of torch or numpy has added is no difference."""
    return [_words(name, before[name], after[name]) for name in before if name in after and before[name] != after[name]]


def stir() -> None:
    """Draw a number from every random state."""
    random.random()  # noqa: S311 - nothing is kept secret with it
    for module, draw in (("numpy", "random.random_sample"), ("torch", "rand")):
        found: Any = sys.modules.get(module)
        if found is not None and hasattr(found, draw.partition(".")[0]):
            operator.attrgetter(draw)(found)(1)


def restore(before: dict[str, Any]) -> None:
    """As far as the checks that follow need it."""
    os.environ.clear()
    os.environ.update(before["the environment (os.environ)"])
    os.chdir(before["the working directory"])
    sys.path[:] = before["the search path (sys.path)"]
    random.setstate(before["the random state of `random`"])
    torch: Any = sys.modules.get("torch")
    if torch is not None and "torch's default dtype" in before:
        torch.set_rng_state(torch.tensor(before["the random state of torch"], dtype=torch.uint8))
        torch.set_default_dtype(before["torch's default dtype"])
        torch.set_num_threads(before["torch's number of threads"])
        torch.set_grad_enabled(before["torch's gradient mode"])


def _words(name: str, before: Any, after: Any) -> str:
    if isinstance(before, dict):
        keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
        return f"{name}: {listed(keys)}"
    short = len(repr(before)) < 60 and len(repr(after)) < 60
    return f"{name} ({before!r} became {after!r})" if short else name
