"""The data source and the reward `reasoning_gym`: rows, the held-out split, and the tasks' own scorers."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
from typing import Any

import pytest

from core_rl.data.sample import Prompt, Sample
from core_rl.errors import DataError, PluginError
from core_rl_reasoning_gym.config import DataConfig, RewardConfig, TaskConfig
from core_rl_reasoning_gym.data import ReasoningGymData
from core_rl_reasoning_gym.guard import is_safe
from core_rl_reasoning_gym.reward import ReasoningGymReward

SMALL = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}
ONE_DIGIT = {**SMALL, "max_terms": 3}


def load(split: Any = "train", seed: int = 1, **options: Any) -> list[Prompt]:
    return list(ReasoningGymData(DataConfig(**options)).load(split, seed))


def questions(prompts: list[Prompt]) -> list[str]:
    return [prompt.metadata["entry"]["question"] for prompt in prompts]


def score(prompt: Prompt, text: str, **options: Any) -> Any:
    sample = Sample(prompt=prompt, turns=(), finish_reason="stop", completion_text=text)
    return ReasoningGymReward(RewardConfig(**options)).score(sample)


def test_rows_follow_from_the_seed() -> None:
    """The same seed gives the same prompts, another seed others; the answer and the entry are with each."""
    first = load(task="chain_sum", config=ONE_DIGIT, size=50)

    assert first == load(task="chain_sum", config=ONE_DIGIT, size=50)
    assert first != load(task="chain_sum", config=ONE_DIGIT, size=50, seed=2)
    assert len(first) == len({prompt.id for prompt in first}) == 50
    assert all(prompt.answer == prompt.metadata["entry"]["answer"] for prompt in first)
    assert pickle.loads(pickle.dumps(first)) == first


def test_held_out_questions_are_never_trained_on() -> None:
    """The two splits have no question in common, and the held-out ones are the same for every run seed."""
    options: dict[str, Any] = {"task": "chain_sum", "config": ONE_DIGIT, "size": 500, "eval_size": 100}
    held, train = questions(load("eval", **options)), questions(load("train", **options))

    assert len(set(held)) == 100
    assert len(train) == 500
    assert not set(held) & set(train)
    assert held == questions(load("eval", seed=2, **options))


def test_a_task_with_few_questions_is_shared_out() -> None:
    """Of some two hundred questions half are held out although five hundred were asked for."""
    options: dict[str, Any] = {"task": "chain_sum", "config": SMALL, "size": 300, "eval_size": 500}
    held, train = questions(load("eval", **options)), questions(load("train", **options))

    assert 80 <= len(held) == len(set(held)) <= 100
    assert len(train) == 300
    assert not set(held) & set(train)


def test_a_task_that_is_wholly_held_out_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left to train on; the message says what to change."""

    def one_question(*_: Any, **__: Any) -> Any:
        return itertools.repeat({"question": "1 + 1 =", "answer": "2", "metadata": {}})

    monkeypatch.setattr("core_rl_reasoning_gym.data.entries", one_question)

    with pytest.raises(DataError, match="task chain_sum: nearly every question it has is held out; lower eval_size"):
        load(task="chain_sum", eval_size=1)


def test_a_mixture_has_its_weights_and_options() -> None:
    """Rows come from each task by its weight, with its own options; one task may stand there twice."""
    tasks = ("spell_backward", TaskConfig(task="chain_sum", weight=3.0, config=SMALL), TaskConfig(task="chain_sum"))
    prompts = load(tasks=tasks, size=400)
    small = [prompt for prompt in prompts if prompt.metadata["task_config"] == SMALL]

    assert 200 < len(small) < 280
    assert len({prompt.id for prompt in prompts}) == 400
    assert {prompt.metadata["task"] for prompt in prompts} == {"spell_backward", "chain_sum"}
    assert all(prompt.metadata["entry"]["metadata"]["num_terms"] == 2 for prompt in small)


def test_how_a_question_is_asked() -> None:
    """A template around it, a system prompt before it, or bare text."""
    options: dict[str, Any] = {"task": "chain_sum", "config": SMALL, "size": 1}
    chat = load(**options, system_prompt="Add.", template=r"{question} In \boxed{}.")[0]
    text = load(**options, format="text", template="{question}\nA:")[0]
    asked = chat.metadata["entry"]["question"]

    assert chat.messages == (
        {"role": "system", "content": "Add."},
        {"role": "user", "content": f"{asked} In \\boxed{{}}."},
    )
    assert text.text == f"{asked}\nA:"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"task": "chainsum"}, "there is no task 'chainsum'; did you mean `chain_sum`?"),
        ({"task": "chain_sum", "config": {"min_term": 2}}, "no option 'min_term'; did you mean `min_terms`?"),
        ({"task": "chain_sum", "config": {"size": 2}}, "seed and size are options of the data source"),
        ({"task": "chain_sum", "config": {"min_terms": 9}}, "refuses its options: max_terms must be >= min_terms"),
        ({"task": "chain_sum", "config": {"min_terms": "x"}}, "refuses its options"),
        ({}, "which task? Set task"),
    ],
)
def test_mistakes_are_one_line_each(options: dict[str, Any], expected: str) -> None:
    """A task or option that is none is named, with the nearest that is."""
    with pytest.raises(DataError) as error:
        load(**options)

    assert expected in str(error.value)
    assert "\n" not in str(error.value)


def test_options_that_exclude_each_other() -> None:
    """One task or a mixture; the mixture's options stand with its tasks."""
    with pytest.raises(ValueError, match="leave one of them out"):
        DataConfig(task="chain_sum", tasks=("chain_sum",))
    with pytest.raises(ValueError, match="each task has a config of its own"):
        DataConfig(config=SMALL, tasks=("chain_sum",))


@pytest.mark.parametrize(
    "name", ["chain_sum", "gsm_symbolic", "leg_counting", "countdown", "n_queens", "spiral_matrix", "word_ladder"]
)
def test_the_reference_answer_scores_one(name: str) -> None:
    """Each task's own scorer finds its own answer right, and none of a completion without one."""
    for prompt in load(task=name, size=3, eval_size=2):
        assert score(prompt, f"I think <answer>{prompt.answer}</answer>").value == pytest.approx(1.0)
        assert score(prompt, "no answer").value == 0.0


def test_where_the_answer_stands_and_partial_credit() -> None:
    """The scorer sees the part that was named; its partial credit can be switched off."""
    prompt = next(prompt for prompt in load(task="chain_sum", config=SMALL) if prompt.answer == "7")

    assert score(prompt, "3 + 4 = 7.", answer="last_number").value == 1.0
    assert score(prompt, "first 7\n8", answer="last_number").value == 0.0
    assert score(prompt, "So:\n7", answer="last_line").value == 1.0
    assert score(prompt, " 7 ", answer="whole").value == 1.0
    assert score(prompt, "17", answer="whole").value == 0.5
    assert score(prompt, "17", answer="whole", partial=False).value == 0.0


def test_a_scorer_that_stumbles_has_seen_a_wrong_answer() -> None:
    """Scorers raise on text they did not expect; that is the model's mistake."""
    outcome = score(load(task="prime_factorization", size=1)[0], "<answer>banana</answer>")

    assert outcome.value == 0.0
    assert "ValueError" in outcome.info["problem"]


def test_scorers_use_the_options_of_the_task() -> None:
    """Some scorers read them; the prompt brings them along."""
    prompt = load(task="puzzle24", config={"min_value": 5}, size=1, eval_size=1)[0]

    assert score(prompt, f"<answer>{prompt.answer}</answer>").value == 1.0
    assert score(prompt, "<answer>4*6*1*1</answer>").value == pytest.approx(0.01)  # the default options would take it


def test_a_prompt_of_other_data_is_an_error() -> None:
    """The reward belongs to this data source, and says so."""
    with pytest.raises(DataError, match="prompt x is not of the data source reasoning_gym"):
        score(Prompt(id="x", text="q", answer="7"), "7", answer="whole")


@pytest.mark.parametrize(
    ("task", "answer", "safe"),
    [
        ("n_queens", "__import__('os').system('true')", False),
        ("n_queens", "[['_', 'Q'], ['Q', '_']]", True),
        ("n_queens", "_ Q\nQ _", True),
        ("spiral_matrix", "[0] * 10**10", False),
        ("spiral_matrix", "[a for a in 'x']", False),
        ("countdown", "exit()", False),
        ("countdown", "(3 + 4) * 2 - 1/5", True),
        ("countdown", "9**9**9", False),
        ("countdown", "9**(9**9)", False),
        ("countdown", "x.__class__", False),
        ("countdown", "factorial(99999999)", False),
        ("simple_integration", "x**2*sin(3*x) + C", True),
        ("countdown", "1+" * 1000, False),
        ("chain_sum", "exit()", True),
    ],
)
def test_what_a_model_wrote_is_not_run(task: str, answer: str, safe: bool) -> None:
    """Scorers that evaluate answers see literals and plain formulas only."""
    assert is_safe(task, answer) is safe


def test_unsafe_answers_score_zero() -> None:
    """They are wrong, and the outcome says why."""
    prompt = load(task="countdown", size=1)[0]
    outcome = score(prompt, "<answer>exit()</answer>")

    assert outcome.value == 0.0
    assert "would run it" in outcome.info["problem"]


def test_building_imports_nothing_heavy() -> None:
    """reasoning-gym, which takes a second to import, waits for the first row or score."""
    code = (
        "import sys\n"
        "from core_rl_reasoning_gym.config import *\n"
        "from core_rl_reasoning_gym.data import ReasoningGymData\n"
        "from core_rl_reasoning_gym.reward import ReasoningGymReward\n"
        "ReasoningGymData(DataConfig(task='chain_sum')); ReasoningGymReward(RewardConfig())\n"
        "print([name for name in ('reasoning_gym', 'torch', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_a_missing_backend_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its backend the plugin says what to install, before anything is loaded."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(PluginError, match=r"pip install 'core-rl\[reasoning_gym\]'"):
        ReasoningGymReward(RewardConfig())
