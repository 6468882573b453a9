"""The named formats. Each takes a sample and returns its checks by name; every one is linear in the text."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping

from core_rl.data.answers import last_boxed
from core_rl.data.sample import Sample

TAGS = ("<think>", "</think>", "<answer>", "</answer>")

_LAYOUT = re.compile(r"\s*<think>[^<]*(?:<(?!/think>)[^<]*)*</think>\s*<answer>[^<]*(?:<(?!/answer>)[^<]*)*</answer>\s*")
_FENCE = "```"
_REPEATED_WORDS = 6
_REPEATED_TIMES = 3


def think_answer(sample: Sample) -> dict[str, bool]:
    """Each tag once, and nothing outside them. A chat template that opens `<think>` in the prompt has done the first."""
    text = sample.completion_text
    if sample.prompt_text.rstrip().endswith(TAGS[0]):
        text = TAGS[0] + text
    return {**{tag: text.count(tag) == 1 for tag in TAGS}, "layout": _LAYOUT.fullmatch(text) is not None}


def boxed(sample: Sample) -> dict[str, bool]:
    return {"boxed": bool((last_boxed(sample.completion_text) or "").strip())}


def json_only(sample: Sample) -> dict[str, bool]:
    text = sample.completion_text.strip()
    if text.startswith(_FENCE) and text.endswith(_FENCE) and len(text) >= 2 * len(_FENCE):
        text = text[len(_FENCE) : -len(_FENCE)].removeprefix("json")
    try:
        json.loads(text)
    except (ValueError, RecursionError):  # a number of too many digits is a ValueError too
        return {"json": False}
    return {"json": True}


def ends_with_eos(sample: Sample) -> dict[str, bool]:
    return {"ends_with_eos": sample.finish_reason == "stop"}


def no_repetition(sample: Sample) -> dict[str, bool]:
    words = sample.completion_text.split()
    runs = Counter(zip(*(words[start:] for start in range(_REPEATED_WORDS)), strict=False))
    return {"no_repetition": max(runs.values(), default=0) < _REPEATED_TIMES}


FORMATS: Mapping[str, Callable[[Sample], dict[str, bool]]] = {
    "think_answer": think_answer,
    "boxed": boxed,
    "json": json_only,
    "ends_with_eos": ends_with_eos,
    "no_repetition": no_repetition,
}
