"""The reward `choice`: what is chosen, what is right, and what it is worth."""

from __future__ import annotations

import pickle
import time
from typing import Any

import pytest

from core_rl.data.sample import Prompt, Sample
from core_rl.errors import DataError
from core_rl_choice.config import ChoiceConfig
from core_rl_choice.reward import ChoiceReward

CITIES = ["London", "Paris", "The Hague", "New York"]


def sample(text: str, answer: Any = "B", **metadata: Any) -> Sample:
    prompt = Prompt(id="p1", text="q", answer=answer, metadata=metadata)
    return Sample(prompt=prompt, turns=(), finish_reason="stop", completion_text=text)


def choice(text: str, *, choices: Any = CITIES, **options: Any) -> str | None:
    scored = sample(text) if choices is None else sample(text, choices=choices)
    found: str | None = ChoiceReward(ChoiceConfig(**options)).score(scored).info["choice"]
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("B", "B"),
        ("(b)", "B"),
        ("**B**", "B"),
        (r"It is \boxed{B}", "B"),
        (r"\boxed{\text{B}}", "B"),
        (r"\boxed{\text{Paris}}", "B"),
        ("<answer>B. Paris</answer>", "B"),
        ("<answer>Paris</answer>", "B"),
        ("I thought A, but the answer is (B).", "B"),
        ("The correct answer is: **B**", "B"),
        ("Answer: B) Paris", "B"),
        ("The answer is A. No, the answer is B.", "B"),
        ("The answer is option B", "B"),
        ("B. Paris is on the Seine, unlike London.", "B"),
        ("B) because A is wrong", "B"),
        ("A is wrong, C is wrong.\nSo it must be B.", "B"),
        ("It is a city in France, so it is Paris.", "B"),
        ("the Paris", "B"),
        ("<think>The answer is A</think>B", "B"),
        ("The answer is a city, so I pick C", "C"),
        ("A city on the Seine.", None),
        ("I do not know", None),
        ("London or Paris", None),
        ("The answer is E", None),
        ("", None),
    ],
)
def test_what_is_chosen(text: str, expected: str | None) -> None:
    """The usual ways to state a choice are read; articles, options that are not there and two at once are none."""
    assert choice(text) == expected


def test_letters_without_options() -> None:
    """Rows that bring no options have the whole alphabet."""
    assert choice("The answer is J", choices=None) == "J"
    assert choice("I think so", choices=None) is None


def test_strict_wants_a_statement() -> None:
    """A letter or text in passing is no choice when strict."""
    assert [choice(text, strict=True) for text in ("B", "Answer: B", r"\boxed{B}", "B. Paris", "so B", "Paris")] == [
        "B",
        "B",
        "B",
        None,
        None,
        None,
    ]


def test_own_pattern() -> None:
    """The user's pattern replaces the search, and its last match counts."""
    assert choice("pick: A, pick: B; The answer is C", pattern=r"pick: (\w)") == "B"
    with pytest.raises(ValueError, match="one group, around the letter; found 2"):
        ChoiceConfig(pattern="(a)(b)")
    with pytest.raises(ValueError, match="not a regular expression"):
        ChoiceConfig(pattern="(")


@pytest.mark.parametrize("answer", ["B", "b", "(B)", "Paris", "paris.", 1, "1"])
def test_forms_of_the_right_answer(answer: Any) -> None:
    """A label, an option's text or an index, as a number or as text."""
    reward = ChoiceReward(ChoiceConfig())

    assert reward.score(sample("B", answer, choices=CITIES)).value == 1.0
    assert reward.score(sample("A", answer, choices=CITIES)).value == 0.0


def test_labels_of_the_data() -> None:
    """ARC names its options itself, sometimes by numbers; a number that is a label is no index."""
    four = {"label": ["1", "2", "3", "4"], "text": CITIES}

    assert ChoiceReward(ChoiceConfig()).score(sample("The answer is 2", "2", choices=four)).value == 1.0
    assert ChoiceReward(ChoiceConfig(first_index=1)).score(sample("B", 2, choices=CITIES)).value == 1.0


def test_values_and_fields() -> None:
    """What a choice is worth, and where options and answer are, are options."""
    reward = ChoiceReward(
        ChoiceConfig(correct=5.0, incorrect=-5.0, no_answer=-6.0, choices_field="options", answer_field="gold")
    )
    values = [reward.score(sample(text, None, options=CITIES, gold=1)).value for text in ("B", "A", "?")]

    assert values == [5.0, -5.0, -6.0]


@pytest.mark.parametrize(
    ("answer", "choices", "expected"),
    [
        ("E", CITIES, "the answer 'E' is none of A, B, C, D, no index from 0, and no option's text"),
        (None, CITIES, "the answer None is none of"),
        (4, CITIES, "the answer 4 is none of"),
        (True, CITIES, "the answer True is none of"),
        ("A", "London", "metadata field 'choices' is no list of 1 to 26 options"),
    ],
)
def test_data_that_cannot_be_scored_is_an_error(answer: Any, choices: Any, expected: str) -> None:
    """That is no wrong choice: the prompt is named."""
    with pytest.raises(DataError) as error:
        ChoiceReward(ChoiceConfig()).score(sample("A", answer, choices=choices))

    assert str(error.value).startswith("reward choice: prompt p1: ")
    assert expected in str(error.value)


@pytest.mark.parametrize("unit", ["A ", "(", "answer is ", "\\boxed{", "[[[", "<answer>", "A. ", "**", "the answer: "])
def test_hostile_text_is_quick(unit: str) -> None:
    """A hundred thousand repeats of what a search looks for: under two seconds of its own, whatever else runs."""
    begun = time.thread_time()
    choice(unit * 100_000)

    assert time.thread_time() - begun < 2.0


def test_a_reward_can_be_pickled() -> None:
    """Also with a pattern in it."""
    assert pickle.loads(pickle.dumps(ChoiceReward(ChoiceConfig(pattern="(.)")))).score(sample("B")).value == 1.0
