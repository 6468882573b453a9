"""Where the final answer stands in a completion. Every search is linear in the text, whatever a model wrote. Torch-free."""

from __future__ import annotations

import re
from typing import Literal

Place = Literal["boxed", "tag", "last_number", "last_line", "whole"]

_BRACE = re.compile(r"\\(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)
_BETWEEN_BOXES = re.compile(r"[\s$\\()]*(?:,|;|and|or)?[\s$\\()]*")
_NUMBER = re.compile(r"(?<![\w.])[-+\u2212]?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:/\d+)?|\.\d+)")
_THINK_END = "</think>"


def find_answer(text: str, place: Place, *, tag: str = "answer") -> str | None:
    """The answer at this place of the final part of a completion, None if there is none."""
    text = final_part(text)
    if place == "boxed":
        return last_boxed(text)
    if place == "tag":
        return last_tag(text, tag)
    if place == "last_number":
        return last_number(text)
    if place == "last_line":
        return last_line(text)
    return text.strip() or None


def final_part(text: str) -> str:
    """What comes after the reasoning: the text behind the last `</think>`, all of it when there is none."""
    return text[text.rfind(_THINK_END) + len(_THINK_END) :] if _THINK_END in text else text


def last_boxed(text: str) -> str | None:
    r"""What the last closed `\boxed{…}` holds. Boxes that only `,` `;` `and` `or` stand between are one answer, joined by commas."""
    boxes = _outer_boxes(text)
    if not boxes:
        return None
    start, end = boxes[-1]
    contents = [text[start:end]]
    for earlier_start, earlier_end in reversed(boxes[:-1]):
        between = text[earlier_end + 1 : start].removesuffix("\\boxed{").removesuffix("\\fbox{")
        if len(between) > 20 or not _BETWEEN_BOXES.fullmatch(between):
            break
        contents.append(text[earlier_start:earlier_end])
        start = earlier_start
    return ", ".join(content.strip() for content in reversed(contents))


def last_tag(text: str, tag: str) -> str | None:
    """What the last `<tag>…</tag>` holds, without the blanks around it."""
    close = text.rfind(f"</{tag}>")
    opening = text.rfind(f"<{tag}>", 0, max(close, 0))
    if close < 0 or opening < 0:
        return None
    return text[opening + len(tag) + 2 : close].strip() or None


def last_number(text: str) -> str | None:
    """The last number: sign, thousands separators, decimals and a plain fraction belong to it. Commas are taken out."""
    numbers = _NUMBER.findall(text)
    return numbers[-1].replace(",", "").replace("\u2212", "-").removeprefix("+") if numbers else None


def last_line(text: str) -> str | None:
    """The last line that is not blank."""
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else None


def _outer_boxes(text: str) -> list[tuple[int, int]]:
    """Start and end of what each closed box holds, in order; of boxes in each other, the innermost."""
    opened: list[int | None] = []
    boxes: list[tuple[int, int]] = []
    for match in _BRACE.finditer(text):
        brace = match.group()
        if brace.endswith("{") and brace != "\\{":
            opened.append(match.end() if len(brace) > 1 else None)
        elif brace == "}" and opened:
            start = opened.pop()
            if start is not None and not (boxes and boxes[-1][0] >= start):
                boxes.append((start, match.start()))
    return boxes
