"""Calls of the workers of an SGLang server, in the forms of SGLang's own routes that carry a text each.

SGLang runs two of them on every worker at once: `/get_weights_by_name`, which answers with numbers, and `/update_weights_from_tensor`,
which loads between `/begin_weight_update` and `/end_weight_update`. `core_rl_sglang.extension` listens there for texts with this prefix.
"""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

PREFIX = "core_rl:"
_NOTHING = base64.b64encode(pickle.dumps([])).decode()


def question(method: str) -> dict[str, Any]:
    """Body of `/get_weights_by_name`."""
    return {"name": f"{PREFIX}{method}"}


def loading(method: str, argument: Any, *, workers: int) -> dict[str, Any]:
    """Body of `/update_weights_from_tensor`: no tensors, but the word where they are."""
    return {
        "serialized_named_tensors": [_NOTHING] * workers,
        "load_format": PREFIX + json.dumps([method, argument]),
        "flush_cache": False,
        "selector": "target",
    }


def asked(text: str | None) -> str | None:
    """What follows the prefix, if it is for us."""
    return text.removeprefix(PREFIX) if text is not None and text.startswith(PREFIX) else None


def packed(answer: Mapping[str, Any]) -> list[float]:
    """In the form in which SGLang carries weights: a list of numbers, which are bytes."""
    return [float(byte) for byte in zlib.compress(json.dumps(answer).encode())]


def unpacked(numbers: Sequence[float]) -> dict[str, Any]:
    """Raises `ValueError` for what is no answer of ours."""
    try:
        found: dict[str, Any] = json.loads(zlib.decompress(bytes(int(number) for number in numbers)))
    except (TypeError, zlib.error) as error:
        message = f"not an answer of core-rl's extension: {str(numbers)[:80]}"
        raise ValueError(message) from error
    return found
