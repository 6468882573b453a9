"""The reward `function`: found by module or file, called by the names it uses, refused with a reason."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from core_rl.data.sample import Prompt, Sample
from core_rl.errors import PluginError
from core_rl.roles.scoring import RewardOutcome
from core_rl_function.config import FunctionConfig
from core_rl_function.reward import OFFERED, FunctionReward

SAMPLE = Sample(
    prompt=Prompt(id="p", text="q", answer="7", metadata={"level": 2}), turns=(), finish_reason="stop", completion_text="so 7"
)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a file of functions and says where it is."""
    monkeypatch.setattr(sys, "path", list(sys.path))

    def make(code: str, name: str = "mine.py") -> str:
        (tmp_path / name).write_text(code, encoding="utf-8")
        return str(tmp_path / name)

    return make


def score(function: str, **arguments: Any) -> RewardOutcome:
    result = FunctionReward(FunctionConfig(function=function, arguments=arguments)).score(SAMPLE)
    if inspect.isawaitable(result):

        async def wait() -> RewardOutcome:
            return await result

        return asyncio.run(wait())
    assert isinstance(result, RewardOutcome)
    return result


def refusal(function: str, **arguments: Any) -> str:
    with pytest.raises(PluginError) as error:
        FunctionReward(FunctionConfig(function=function, arguments=arguments))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_parameters_are_given_by_name(write: Any) -> None:
    """A function gets what it names, in any order, and may name everything or nothing."""
    path = write(
        "def some(answer, completion): return float(answer in completion)\n"
        "def every(**given): return len(given)\n"
        "def deep(sample, prompt, metadata): return metadata['level'] + (sample.prompt is prompt)\n"
        "def none(): return 0.25\n"
        "def more(completion, bonus=1.0): return bonus\n"
    )

    assert score(f"{path}:some").value == 1.0
    assert score(f"{path}:every").value == len(OFFERED)
    assert score(f"{path}:deep").value == 3
    assert score(f"{path}:none").value == 0.25
    assert score(f"{path}:more").value == 1.0
    assert score(f"{path}:more", bonus=2).value == 2.0


def test_async_functions_and_outcomes(write: Any) -> None:
    """A coroutine is awaited; an outcome goes through with its facts; truth values and numpy numbers are numbers."""
    path = write(
        "import asyncio, numpy\nfrom core_rl.roles.scoring import RewardOutcome\n"
        "async def slow(completion):\n    await asyncio.sleep(0)\n    return completion == 'so 7'\n"
        "def facts(): return RewardOutcome(value=0.5, info={'why': 'half'})\n"
        "def numpy_number(): return numpy.float32(0.5)\n"
    )

    assert score(f"{path}:slow").value == 1.0
    assert score(f"{path}:facts").info == {"why": "half"}
    assert score(f"{path}:numpy_number").value == 0.5


def test_a_result_that_is_no_number_raises(write: Any) -> None:
    """None, as of a function that forgot to return, is never taken for zero."""
    path = write("def forgot(completion): completion == '7'\ndef text(): return '1'\n")

    with pytest.raises(TypeError, match="forgot returned NoneType, a reward is a number"):
        score(f"{path}:forgot")
    with pytest.raises(TypeError, match="returned str"):
        score(f"{path}:text")


def test_module_references_and_siblings(write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module in the working directory is found, and a file may import what lies beside it."""
    write("VALUE = 3\n", "core_rl_test_sibling.py")
    path = write("from core_rl_test_sibling import VALUE\ndef value(): return VALUE\n")
    monkeypatch.chdir(tmp_path)
    write("def one(): return 1\n", "core_rl_test_module.py")

    assert score(f"{path}:value").value == 3
    assert score("core_rl_test_module:one").value == 1


def test_mistakes_are_one_line_each(write: Any) -> None:
    """What is missing, misspelt or asked for in vain is named."""
    path = write(
        "def score_it(completion, gold): return 1\ndef fine(completion): return 1\nNUMBER = 1\ndef pos(a, /): return 1\n"
    )
    broken = write("x = 1\ny = 1 / 0\n", "broken.py")
    syntax = write("def f(:\n", "syntax.py")

    assert refusal(f"{path}:score_it").endswith(
        "asks for 'gold'; it may ask for completion, answer, prompt, sample, metadata, or be given 'gold' by `arguments`"
    )
    assert "did you mean `score_it`?" in refusal(f"{path}:scoreit")
    assert "is no function, it is of type int" in refusal(f"{path}:NUMBER")
    assert "is positional only" in refusal(f"{path}:pos")
    assert "has no parameter 'completon' for arguments.completon; did you mean `completion`?" in refusal(
        f"{path}:fine", completon=1
    )
    assert "importing broken.py raised ZeroDivisionError: line 2: division by zero" in refusal(f"{broken}:f")
    assert "importing syntax.py raised SyntaxError" in refusal(f"{syntax}:f")
    assert "there is no file nowhere.py" in refusal("nowhere.py:f")
    assert "no module core_rl_no_such" in refusal("core_rl_no_such:f")


@pytest.mark.parametrize("text", ["name", "module:", ":name", "module:a b"])
def test_the_form_of_a_reference_is_checked_with_the_options(text: str) -> None:
    """A reference that is none is refused before anything is imported."""
    with pytest.raises(ValueError, match=r"written package\.module:name"):
        FunctionConfig(function=text)


def test_a_reward_can_be_pickled(write: Any) -> None:
    """A worker process finds the function again."""
    path = write("def one(): return 1\n")
    reward = FunctionReward(FunctionConfig(function=f"{path}:one"))

    assert pickle.loads(pickle.dumps(reward)).score(SAMPLE).value == 1.0
