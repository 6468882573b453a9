"""The reward `math`: what counts as equal, where the answer is looked for, and text that means harm."""

from __future__ import annotations

import pickle
import threading
import time
from typing import Any

import pytest

from core_rl.data.sample import Prompt, Sample
from core_rl.errors import DataError, PluginError
from core_rl_math.config import MathConfig
from core_rl_math.plain import as_number, as_words, unwieldy
from core_rl_math.reward import MathReward


@pytest.fixture(scope="module")
def reward() -> MathReward:
    return MathReward(MathConfig())


def sample(text: str, gold: Any, **metadata: Any) -> Sample:
    prompt = Prompt(id="p1", text="q", answer=gold, metadata=metadata)
    return Sample(prompt=prompt, turns=(), finish_reason="stop", completion_text=text)


EQUAL = [
    ("7", r"so \boxed{7}."),
    (72, "The answer is 72 apples."),
    (72.0, "72"),
    ("so 8*9=72\n#### 72", "It is $72."),
    (r"The area is \boxed{\frac{1}{2}}", r"\boxed{0.5}"),
    ("1,234", r"\boxed{1234}"),
    ("1000", "so 1,000."),
    ("1000", "1e3"),
    ("-3/4", r"\boxed{-\frac{3}{4}}"),
    ("8", "= 8"),
    ("50", r"\boxed{50\%}"),
    ("0.5", r"\boxed{50\%}"),
    ("50%", r"\boxed{0.5}"),
    ("12", r"\boxed{12\text{ cm}}"),
    ("12 cm", r"\boxed{12}"),
    ("90", r"\boxed{90^\circ}"),
    (r"2 \frac{1}{2}", r"\boxed{2.5}"),
    ("0.333333333", r"\boxed{1/3}"),
    ("x = 5", r"\boxed{5}"),
    ("1, 2", r"$\boxed{2}$ and $\boxed{1}$"),
    ("2x+1", "$1 + 2x$"),
    ("sqrt(8)", r"\boxed{2\sqrt{2}}"),
    ("x^2+2x+1", r"\boxed{(x+1)^2}"),
    (r"\text{Paris}", r"\boxed{paris}"),
    (["three", "3"], r"\boxed{Three}"),
    ("5", r"\boxed{4} I mean \boxed{5}"),
    ("5", r"<think>\boxed{4}</think> \boxed{5}"),
]
DIFFERENT = [
    ("7", r"\boxed{8}"),
    (72, "The answer is 73."),
    ("10000001", r"\boxed{10000000}"),
    ("x^2+3", r"\boxed{3}"),
    ("Paris", r"\boxed{Pairs}"),
    ("0.5", r"\boxed{5\%}"),
    ("5", r"\boxed{5} I mean \boxed{4}"),
    ("5", r"<think>\boxed{5}</think> It is 4."),
]


@pytest.mark.parametrize(("gold", "text"), EQUAL)
def test_equal_answers(reward: MathReward, gold: Any, text: str) -> None:
    """Forms of one value are right, whichever way they are written."""
    assert reward.score(sample(text, gold)).value == 1.0


@pytest.mark.parametrize(("gold", "text"), DIFFERENT)
def test_different_answers(reward: MathReward, gold: Any, text: str) -> None:
    """Another value, an anagram and an answer that was taken back are wrong."""
    assert reward.score(sample(text, gold)).value == 0.0


@pytest.mark.parametrize("text", ["", "  ", "no idea", r"\boxed{", "<think> 5 </think>"])
def test_no_answer(text: str) -> None:
    """No answer is wrong, and may be worth less than a wrong one; the outcome says that there was none."""
    outcome = MathReward(MathConfig(no_answer=-1.0)).score(sample(text, "5"))

    assert outcome.value == -1.0
    assert outcome.info["answer"] is None


@pytest.mark.parametrize(
    ("extract", "text", "value"),
    [
        ("boxed", "It is 5", 0.0),
        ("boxed", r"\boxed{5} then 6", 1.0),
        ("tag", "6 <answer>5</answer> 6", 1.0),
        ("tag", "<answer>The answer is 5 apples.</answer>", 1.0),
        ("tag", r"<answer>\boxed{5}</answer>", 1.0),
        ("tag", "5", 0.0),
        ("last_number", "5 and 6, no, 5 apples", 1.0),
        ("last_number", "5, no, 6", 0.0),
        ("last_line", "6\n 5\n", 1.0),
        ("last_line", "5\n6", 0.0),
    ],
)
def test_where_the_answer_stands(extract: Any, text: str, value: float) -> None:
    """Only the place that was named is looked at."""
    assert MathReward(MathConfig(extract=extract)).score(sample(text, "5")).value == value


def test_values_tolerance_and_fields() -> None:
    """What an answer is worth, how near a number must be, and where the reference is, are options."""
    signed = MathReward(MathConfig(correct=5.0, incorrect=-5.0, tolerance=0.1, answer_field="truth"))

    assert signed.score(sample("10.5", None, truth="10.0001")).value == 5.0
    assert signed.score(sample("11.5", None, truth="10.0001")).value == -5.0
    assert signed.score(sample(r"\boxed{\sqrt{101}}", None, truth="10.0001")).value == 5.0
    assert signed.score(sample("11", None, truth="10")).value == -5.0


def test_strict_false_ignores_the_names_of_variables() -> None:
    """By default x+1 is not y+1."""
    found = [MathReward(MathConfig(strict=strict)).score(sample(r"\boxed{y+1}", "x+1")).value for strict in (True, False)]

    assert found == [0.0, 1.0]


def test_a_prompt_without_an_answer_is_an_error(reward: MathReward) -> None:
    """That is no wrong answer: the data is at fault, and the prompt is named."""
    with pytest.raises(DataError, match="prompt p1 has no answer to compare with"):
        reward.score(sample("5", None))
    with pytest.raises(DataError, match="no answer in metadata field 'truth'"):
        MathReward(MathConfig(answer_field="truth")).score(sample("5", "5"))


HOSTILE = [
    "\\boxed{" * 100_000,
    "\\boxed{" * 50_000 + "}" * 50_000,
    "{" * 100_000,
    "9" * 100_000,
    "\\boxed{" + "9" * 400 + "}",
    "\\boxed{9^{9^{9^{9}}}}",
    "\\boxed{9**99999999}",
    "\\boxed{(((9!)!)!)!}",
    "\\boxed{" + "\\frac{1}{" * 30 + "2" + "}" * 31,
    "\\boxed{" + "(" * 200 + "5" + ")" * 200 + "}",
    "answer is " * 20_000,
    "\\boxed{\x00\ud800}",
    "$" * 100_000,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_wrong_and_quick(reward: MathReward, text: str) -> None:
    """Nothing that a model writes raises, or takes longer than the comparing process may."""
    reward.score(sample(r"\boxed{x}", "y"))  # the process runs
    begun = time.perf_counter()

    assert reward.score(sample(text, "x+1")).value == 0.0
    assert time.perf_counter() - begun < 5.0


def test_an_endless_comparison_is_ended_and_the_next_one_works() -> None:
    """One C call that would take hours costs the time-out, is wrong, and says why."""
    reward = MathReward(MathConfig(timeout_s=0.5))
    outcome = reward.score(sample(r"\boxed{\binom{99999999}{9999999}}", "5"))

    assert outcome.value == 0.0
    assert "in time" in outcome.info["problem"]
    assert reward.score(sample(r"\boxed{\frac{10}{2}}", "5")).value == 1.0


def test_many_threads_share_a_reward(reward: MathReward) -> None:
    """Each gets the verdict of its own answer."""
    wrong: list[int] = []

    def work(number: int) -> None:
        for index in range(10):
            value = reward.score(sample(f"\\boxed{{x+{index}}}", f"{number % 10}+x")).value
            wrong.extend([number] if value != float(index == number % 10) else [])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


def test_a_reward_can_be_pickled(reward: MathReward) -> None:
    """A worker process builds its own; the comparing process stays behind."""
    assert pickle.loads(pickle.dumps(reward)).score(sample("5", "5")).value == 1.0


def test_plain_forms() -> None:
    """What counts as a plain number, plain words, and too much."""
    assert [
        as_number(text) is None for text in ("1,234.5", "-.5", "3/4", "12 %", "1e-3", "", ".", "1,23", "3/0", "x", "-")
    ] == [
        *[False] * 5,
        *[True] * 6,
    ]
    assert as_words(r"\text{New  York}.") == "new york"
    assert as_words("x") is None
    assert unwieldy("x^{2}+y^{2}") is None
    assert unwieldy("2^{3^{4}}") is not None


def test_a_missing_backend_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its backend the plugin says what to install, before anything is loaded."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(PluginError, match=r"pip install 'core-rl\[math\]'"):
        MathReward(MathConfig())
