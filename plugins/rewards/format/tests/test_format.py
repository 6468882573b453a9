"""The reward `format`."""

from __future__ import annotations

import pickle
import time
from typing import Any

import pytest

from core_rl.data.sample import Prompt, Sample
from core_rl_format.checks import FORMATS
from core_rl_format.config import FormatConfig
from core_rl_format.reward import FormatReward


def sample(text: str, *, prompt_text: str = "", finish_reason: Any = "stop") -> Sample:
    prompt = Prompt(id="p", text="q")
    return Sample(prompt=prompt, turns=(), finish_reason=finish_reason, completion_text=text, prompt_text=prompt_text)


def value(text: str, *, prompt_text: str = "", finish_reason: Any = "stop", **options: Any) -> float:
    scored = sample(text, prompt_text=prompt_text, finish_reason=finish_reason)
    return FormatReward(FormatConfig(**options)).score(scored).value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>a\nb</think>\n<answer>c</answer>", 1.0),
        ("<think>a < b</think><answer>1<2</answer>\n", 1.0),
        ("<think>a</think>", 0.0),
        ("x <think>a</think><answer>c</answer>", 0.0),
        ("<think>a</think><answer>c</answer> x", 0.0),
        ("<answer>c</answer><think>a</think>", 0.0),
        ("<think>a</think><answer>b</answer><answer>c</answer>", 0.0),
    ],
)
def test_think_answer(text: str, expected: float) -> None:
    """Each tag once, in order, and nothing outside. This is what is checked when nothing else is said."""
    assert value(text) == expected


def test_think_may_be_opened_by_the_prompt() -> None:
    """Some chat templates end the prompt with the tag."""
    assert value("a</think><answer>c</answer>", prompt_text="<|assistant|>\n<think>\n") == 1.0
    assert value("a</think><answer>c</answer>") == 0.0


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("boxed", r"so \boxed{1}", r"so \boxed{1"),
        ("boxed", r"so \boxed{{1}}", r"so \boxed{}"),
        ("json", '{"a": [1, 2]}', '{"a": }'),
        ("json", '```json\n{"a": 1}\n```', 'Here: {"a": 1}'),
        ("no_repetition", "one two three four five six seven", "a b c d e f " * 3),
    ],
)
def test_named_formats(name: Any, good: str, bad: str) -> None:
    """A text that follows the format, and one that does not."""
    assert value(good, formats=(name,)) == 1.0
    assert value(bad, formats=(name,)) == 0.0


def test_ends_with_eos_goes_by_the_finish_reason() -> None:
    """A completion that was cut has not ended, however short it is."""
    assert value("x", formats=("ends_with_eos",)) == 1.0
    assert value("x", formats=("ends_with_eos",), finish_reason="length") == 0.0


def test_pattern_full_and_search() -> None:
    """A pattern covers the whole completion unless a part is enough; line ends need (?s)."""
    assert value("answer: 5", pattern=r"answer: \d+") == 1.0
    assert value("the answer: 5!", pattern=r"answer: \d+") == 0.0
    assert value("the answer: 5!", pattern=r"answer: \d+", match="search") == 1.0
    assert value("a\nb", pattern="a.b") == 0.0
    assert value("a\nb", pattern="(?s)a.b") == 1.0


def test_partial_credit_and_values() -> None:
    """The share of the checks that hold lies between the two values; the outcome names those that failed."""
    outcome = FormatReward(FormatConfig(formats=("think_answer",), partial=True)).score(sample("<think>a</think>5"))

    assert outcome.value == pytest.approx(2 / 5)
    assert outcome.info["failed"] == ["<answer>", "</answer>", "layout"]
    assert value("5", formats=("boxed", "ends_with_eos"), partial=True, correct=1.0, incorrect=-1.0) == 0.0
    assert value("5", formats=("boxed", "ends_with_eos"), correct=2.0, incorrect=-1.0) == -1.0


def test_a_bad_pattern_is_refused_with_its_place() -> None:
    """The mistake is found when the options are made, before anything is loaded."""
    with pytest.raises(ValueError, match=r"not a regular expression: missing \), unterminated subpattern at position 1"):
        FormatConfig(pattern="a(b")


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize("unit", ["<think>", "<", "<think></think>", "\\boxed{", "[", "1", "a ", "```", '{"a":', "</answer>"])
def test_hostile_text_is_quick(name: str, unit: str) -> None:
    """A hundred thousand repeats neither raise nor take a second of their own, whatever else runs."""
    begun = time.thread_time()
    FORMATS[name](sample(unit * 100_000))

    assert time.thread_time() - begun < 2.0


def test_a_reward_can_be_pickled() -> None:
    """Also with a pattern in it."""
    assert pickle.loads(pickle.dumps(FormatReward(FormatConfig(pattern="x")))).score(sample("x")).value == 1.0
