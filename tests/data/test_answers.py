"""The final answer is found where it stands, and quickly."""

from __future__ import annotations

import time

import pytest

from core_rl.data.answers import Place, find_answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so \boxed{42}.", "42"),
        (r"\boxed{1} no wait, it is \boxed{2}", "2"),
        (r"$\boxed{1}$ and $\boxed{2}$", "1, 2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\boxed{3}}", "3"),
        (r"\boxed{5} and then \boxed{6", "5"),
        (r"\fbox{x}", "x"),
        (r"<think>\boxed{1}</think> I do not know", None),
        (r"<think>\boxed{1}</think> \boxed{2}", "2"),
        ("none", None),
    ],
)
def test_boxed(text: str, answer: str | None) -> None:
    """The last closed box counts; boxes side by side are one answer; reasoning does not count."""
    assert find_answer(text, "boxed") == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("3 + 4 = 7.", "7"),
        ("It costs $1,234.50 in all", "1234.50"),
        ("10-3", "3"),
        ("x = -5", "-5"),
        ("x = \u22125", "-5"),
        ("it is +8", "8"),
        ("about 3/4", "3/4"),
        (".5", ".5"),
        ("1,2 and 3", "3"),
        ("none", None),
    ],
)
def test_last_number(text: str, answer: str | None) -> None:
    """Signs, separators, decimals and fractions belong to a number; a minus between two numbers is no sign."""
    assert find_answer(text, "last_number") == answer


def test_tag_line_and_whole() -> None:
    """The last closed tag, the last line that is not blank, all of the final part."""
    assert find_answer("<answer>1</answer> <answer> 2 </answer><answer>3", "tag") == "2"
    assert find_answer("<a>1</a>", "tag", tag="a") == "1"
    assert find_answer("</answer>2", "tag") is None
    assert find_answer("one\n two \n\n", "last_line") == "two"
    assert find_answer("<think>x</think>\n y \n", "whole") == "y"
    assert find_answer(" \n", "last_line") is None


@pytest.mark.parametrize("place", ["boxed", "tag", "last_number", "last_line", "whole"])
@pytest.mark.parametrize(
    "unit", ["\\boxed{", "{", "}", "\\", "<answer>", "</think>", "1,", "9", "-", "1/", "\n", "\\boxed{1},"]
)
def test_hostile_text_is_quick(place: Place, unit: str) -> None:
    """A hundred thousand repeats of anything that a search looks for: under a second of its own, whatever else runs."""
    begun = time.thread_time()
    find_answer(unit * 100_000, place)

    assert time.thread_time() - begun < 1.0
