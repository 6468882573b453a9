"""The reward `math`: the completion's final answer against the reference, plain answers first, algebra when it takes that."""

from __future__ import annotations

import importlib.util
from typing import Any

from core_rl.data.answers import final_part, find_answer, last_boxed
from core_rl.data.sample import Prompt, Sample
from core_rl.errors import DataError, PluginError
from core_rl.roles.scoring import RewardOutcome
from core_rl_math.algebra import Algebra, Verdict
from core_rl_math.config import MathConfig
from core_rl_math.plain import MAX_ANSWER_CHARS, as_number, as_words, tidy, unwieldy


class MathReward:
    """Thread-safe. `info` of an outcome has the answer that was found."""

    def __init__(self, config: MathConfig) -> None:
        if importlib.util.find_spec("math_verify") is None:
            message = "reward math needs math-verify: pip install 'core-rl[math]'"
            raise PluginError(message)
        self._config = config
        self._algebra = Algebra(tolerance=config.tolerance, strict=config.strict, timeout_s=config.timeout_s)

    def __reduce__(self) -> tuple[type[MathReward], tuple[MathConfig]]:
        return MathReward, (self._config,)

    def score(self, sample: Sample) -> RewardOutcome:
        config = self._config
        golds = references(sample.prompt, config.answer_field)
        answer = self._find(sample.completion_text)
        verdict = self._compare(golds, answer) if answer is not None else Verdict(correct=False, found=False)
        info = {} if verdict.problem is None else {"problem": verdict.problem}
        if answer is None or not verdict.found:
            value = config.incorrect if config.no_answer is None else config.no_answer
            return RewardOutcome(value=value, info={"answer": None, **info})
        value = config.correct if verdict.correct else config.incorrect
        return RewardOutcome(value=value, info={"answer": answer[-MAX_ANSWER_CHARS:], **info})

    def _find(self, completion: str) -> str | None:
        place = self._config.extract
        if place == "anywhere":
            text = final_part(completion)
            return last_boxed(text) or text.strip()[-MAX_ANSWER_CHARS:] or None
        found = find_answer(completion, place, tag=self._config.tag)
        return found if found is None else last_boxed(found) or found

    def _compare(self, golds: list[str], answer: str) -> Verdict:
        number, words = as_number(answer), as_words(answer)
        numbers = [as_number(gold) for gold in golds]
        if tidy(answer) in {tidy(gold) for gold in golds}:
            return Verdict(correct=True, found=True)
        if number is not None and None not in numbers:
            right = any(number.equals(gold, self._config.tolerance) for gold in numbers if gold is not None)
            return Verdict(correct=right, found=True)
        if any(as_words(gold) is not None for gold in golds):
            return Verdict(correct=words is not None and words in {as_words(gold) for gold in golds}, found=True)
        problem = unwieldy(answer)
        if problem is not None:
            return Verdict(correct=False, found=True, problem=problem)
        return self._algebra.check(golds, answer)


def references(prompt: Prompt, field: str | None) -> list[str]:
    r"""The reference answers, one or several alternatives. `#### 7` (GSM8K) and `\boxed{7}` (MATH) mean 7.

    Raises:
        DataError: the prompt has none.
    """
    answer: Any = prompt.answer if field is None else prompt.metadata.get(field)
    alternatives = answer if isinstance(answer, (list, tuple)) else [answer]
    golds = [_reference(str(item)) for item in alternatives if item is not None]
    if not golds or not all(golds):
        where = "no answer" if field is None else f"no answer in metadata field {field!r}"
        message = f"reward math: prompt {prompt.id} has {where} to compare with"
        raise DataError(message)
    return golds


def _reference(text: str) -> str:
    text = text.rsplit("####", maxsplit=1)[-1]
    return (last_boxed(text) or text).strip()
